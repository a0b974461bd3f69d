package allinone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// ErrStore is what Run returns when the bus failed to write and its disk has room: a
// nats-server that failed once takes no more writes, and has to be started again.
var ErrStore = errors.New("the bus failed to write, and takes no more writes until it is started again")

const (
	// roomToGoOn is how much must be free before the bus is started again.
	roomToGoOn = 32 << 20
	// storeEvery is how often the bus is asked whether its streams take writes.
	storeEvery = 5 * time.Second
	// sureAfter is how many answers in a row must be bad.
	sureAfter = 2
)

// storeWatch notices that the bus takes no more writes. While the disk is full everything
// that only reads goes on.
type storeWatch struct {
	dir     string
	log     zerolog.Logger
	every   time.Duration
	free    func(dir string) (uint64, error)
	trouble func() error // why streams take no writes, or nil
}

// run returns ErrStore once the bus takes no more writes and there is room for more.
func (w *storeWatch) run(ctx context.Context) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	said := false
	for bad := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		cause := w.trouble()
		if cause == nil {
			bad = 0
			continue
		}
		if bad++; bad < sureAfter {
			continue
		}
		free, err := w.free(w.dir)
		if err == nil && free >= roomToGoOn {
			return fmt.Errorf("%w: %w", ErrStore, cause)
		}
		if !said {
			w.log.Error().AnErr("cause", cause).Err(err).Str(logs.Path, w.dir).Uint64("free", free).Uint64("wanted", roomToGoOn).
				Msg("the bus cannot write: nothing is decided until its disk has room")
			said = true
		}
	}
}

// trouble asks the embedded server why its streams take no writes. A stream that failed
// to write once refuses every later write, and the server's health names it.
func (g *Garrison) trouble() error {
	var out []error
	for _, e := range g.server.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if e.Type == server.HealthzErrorStream || e.Type == server.HealthzErrorJetStream {
			out = append(out, errors.New(e.Error))
		}
	}
	return errors.Join(out...)
}

// checkRoom refuses to make the streams on a disk that cannot hold what they may grow to.
func (g *Garrison) checkRoom() error {
	if _, err := os.Stat(g.streamsDir()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var want uint64
	for _, s := range topology.Streams(1) {
		want += uint64(max(s.MaxBytes, 0))
	}
	free, err := freeAt(g.config.Data)
	if err == nil && free < want {
		return fmt.Errorf("the streams want %d MiB free at %s, and %d MiB are", want>>20, g.config.Data, free>>20)
	}
	return err
}

func (g *Garrison) streamsDir() string { return filepath.Join(g.config.Data, "jetstream") }

// freeAt returns how many bytes may still be written in a directory.
func freeAt(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
