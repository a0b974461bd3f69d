package allinone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// ErrStore is what Run returns when the bus failed to write and its disk has space again: a
// nats-server that failed once refuses every write until it is restarted.
var ErrStore = errors.New("the bus failed to write, and refuses writes until it is restarted")

const (
	// roomToGoOn is how much must be free before the bus is restarted.
	roomToGoOn = 32 << 20
	// storeEvery is the interval between two checks whether the streams accept writes.
	storeEvery = 5 * time.Second
	// sureAfter is how many checks in a row must fail.
	sureAfter = 2
)

// storeWatch detects that the bus refuses writes. While the disk is full, reads keep
// working.
type storeWatch struct {
	dir     string
	log     zerolog.Logger
	every   time.Duration
	free    func(dir string) (uint64, error)
	trouble func() error // why streams refuse writes, or nil
}

// run returns ErrStore once the bus refuses writes and the disk has space for more.
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
			w.log.Error().AnErr("cause", cause).Err(err).Str(logs.Path, w.dir).Uint64("free", free).
				Uint64("wanted", roomToGoOn).
				Msg("the bus cannot write: nothing is decided until its disk has room")
			said = true
		}
	}
}

// trouble asks the embedded server why its streams refuse writes. A stream that failed to
// write once refuses every later write, and the server's health check names it. Of a member of a cluster it also names
// streams that have no leader or catch up, which a restart would only delay.
func (g *Garrison) trouble() error {
	var out []error
	for _, e := range g.server.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if len(g.config.Cluster) > 0 && !strings.Contains(e.Error, "write error") {
			continue
		}
		if e.Type == server.HealthzErrorStream || e.Type == server.HealthzErrorJetStream {
			out = append(out, errors.New(e.Error))
		}
	}
	return errors.Join(out...)
}

// checkRoom refuses to create the streams on a disk that is too small for them.
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
		return fmt.Errorf("the streams need %d MiB of free space in %s, and %d MiB are free",
			want>>20, g.config.Data, free>>20)
	}
	return err
}

// HasRoom returns why the bus of a data directory cannot store what is to come, or nil.
func HasRoom(data string) error {
	free, err := freeAt(data)
	if err == nil && free < roomToGoOn {
		return fmt.Errorf("%d MiB are free in %s, and the bus needs %d to store what is to come; make room there",
			free>>20, data, roomToGoOn>>20)
	}
	return err
}

// freeAt returns how many bytes may still be written in a directory.
func freeAt(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// dataFormat is the format of the data directory, as the file "format" holds it.
var dataFormat = format.Spec{Kind: "data directory", Now: 1, Floor: 1}

// checkData refuses a data directory that another user could change, or whose format needs a newer
// program. It writes nothing. Directories from before there were numbers have none.
func checkData(data string) (have format.Stamp, err error) {
	if err := checkPermissions(data); err != nil {
		return have, err
	}
	text, err := os.ReadFile(filepath.Join(data, "format"))
	if errors.Is(err, fs.ErrNotExist) {
		return have, nil
	}
	if err == nil {
		err = dataFormat.ReadJSON(data, text, &have)
	}
	if err != nil {
		return have, fmt.Errorf("read the format of data directory %s: %w", data, err)
	}
	return have, nil
}

// checkPermissions refuses a data directory in which another user could change the keys or what the
// services believe.
func checkPermissions(data string) error {
	if err := strictdir.Dir(data); err != nil {
		return err
	}
	for _, dir := range []string{"jetstream", "cluster", "views", "accounts", "trust", "trust/tls", "webhooks"} {
		if err := strictdir.Dir(filepath.Join(data, dir)); err != nil {
			return err
		}
	}
	for _, file := range []string{"format", "address", "lock", "operator.json", "trust/authority.json"} {
		if err := strictdir.File(filepath.Join(data, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return strictdir.Tree(filepath.Join(data, "trust", "keys"))
}

// adoptData writes the current numbers into a directory with older ones, or without.
func adoptData(data string, have format.Stamp) error {
	if have.Format >= dataFormat.Now {
		return nil
	}
	text, err := json.Marshal(dataFormat.Stamp())
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(data, "format"), append(text, '\n'), 0o600)
}
