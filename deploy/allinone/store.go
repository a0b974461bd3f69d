package allinone

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// ErrStore is what Run returns when the bus failed to write and its disk has room: a
// nats-server that failed once takes no more writes, and has to be started again.
var ErrStore = errors.New("the bus failed to write, and takes no more writes until it is started again")

const (
	// roomToGoOn is how much must be free before the bus is started again.
	roomToGoOn = 32 << 20
	// storeEvery is how often is looked whether the bus failed to write.
	storeEvery = 5 * time.Second
)

// storeWatch notices that the bus failed to write. While the disk is full everything
// that only reads goes on.
type storeWatch struct {
	dir    string
	log    zerolog.Logger
	every  time.Duration
	free   func(dir string) (uint64, error)
	failed atomic.Bool
}

// run returns ErrStore once the bus failed to write and there is room for more.
func (w *storeWatch) run(ctx context.Context) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !w.failed.Load() {
			continue
		}
		free, err := w.free(w.dir)
		if err == nil && free >= roomToGoOn {
			return ErrStore
		}
		if !said {
			w.log.Error().Err(err).Str("path", w.dir).Uint64("free", free).Uint64("wanted", roomToGoOn).
				Msg("the bus cannot write: nothing is decided until its disk has room")
			said = true
		}
	}
}

// explainSpace says what a bus wants that refuses to make its streams because the disk is too small.
func (g *Garrison) explainSpace(err error) error {
	var reserved uint64
	for _, s := range topology.Streams(1) {
		reserved += uint64(max(s.MaxBytes, 0))
	}
	// The server takes three quarters of what is free for its streams.
	wanted := reserved / 3 * 4
	free, e := freeAt(g.config.Data)
	if e != nil || free >= wanted {
		return err
	}
	return fmt.Errorf("%w: the streams want %d MiB free at %s, and %d MiB are", err, wanted>>20, g.config.Data, free>>20)
}

// freeAt gives how many bytes may still be written in a directory.
func freeAt(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
