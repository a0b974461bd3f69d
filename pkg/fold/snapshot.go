package fold

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	viewv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/view/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/logs"
)

// A snapshot file is a length-delimited viewv1.Header, the canonical encoding, and the
// sha256 of both.

func (f *Follower) snapshotFile() string { return filepath.Join(f.opts.Store, f.opts.Service+".view") }

// save writes a snapshot, whole or not at all, when the view has moved since the last.
func (f *Follower) save() error {
	if f.opts.Store == "" || f.position == f.saved {
		return nil
	}
	if err := os.MkdirAll(f.opts.Store, 0o700); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	// Always the same name, so that what a killed process left is written over.
	tmp, err := os.OpenFile(f.snapshotFile()+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	position, err := f.writeSnapshot(tmp)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	if err := os.Rename(tmp.Name(), f.snapshotFile()); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	f.saved = position
	return syncDir(f.opts.Store)
}

func (f *Follower) writeSnapshot(file io.Writer) (uint64, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(file, sum), 1<<20)
	header := &viewv1.Header{Service: f.opts.Service, Layout: f.opts.Layout, Position: f.position, LedgerCreatedNs: f.created.UnixNano(), PositionStoredNs: f.stored.UnixNano()}
	if _, err := protodelim.MarshalTo(w, header); err != nil {
		return 0, err
	}
	if err := saveTables(w, f.view); err != nil {
		return 0, err
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	_, err := file.Write(sum.Sum(nil))
	return f.position, err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// load reads the snapshot into the view. One that is not there, not whole or not of
// this ledger and layout is passed over.
func (f *Follower) load(ctx context.Context, end bus.Stream) error {
	if f.opts.Store == "" {
		return nil
	}
	data, err := os.ReadFile(f.snapshotFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var h *viewv1.Header
	var rows *bytes.Reader
	if err == nil {
		h, rows, err = f.checkSnapshot(ctx, end, data)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		f.opts.Log.Warn().Err(err).Str(logs.Path, f.snapshotFile()).Msg("snapshot not used; replaying from the start")
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := loadTables(rows, f.view); err != nil {
		// The view is half filled, so this process cannot go on; the next one replays.
		return errors.Join(fmt.Errorf("snapshot %s is whole but cannot be read: %w", f.snapshotFile(), err), os.Remove(f.snapshotFile()))
	}
	f.position, f.stored = h.Position, time.Unix(0, h.PositionStoredNs)
	f.view.Loaded()
	f.opts.Log.Info().Uint64(logs.Sequence, f.position).Msg("snapshot read")
	return nil
}

// checkSnapshot checks everything that can be checked before the first row reaches the view.
func (f *Follower) checkSnapshot(ctx context.Context, end bus.Stream, data []byte) (*viewv1.Header, *bytes.Reader, error) {
	if len(data) < sha256.Size {
		return nil, nil, errors.New("snapshot is cut short")
	}
	body, want := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if have := sha256.Sum256(body); !bytes.Equal(have[:], want) {
		return nil, nil, errors.New("snapshot's checksum is wrong")
	}
	r := bytes.NewReader(body)
	h := &viewv1.Header{}
	if err := protodelim.UnmarshalFrom(r, h); err != nil {
		return nil, nil, fmt.Errorf("read snapshot's header: %w", err)
	}
	if h.Service != f.opts.Service || h.Layout != f.opts.Layout || h.LedgerCreatedNs != f.created.UnixNano() {
		return nil, nil, errors.New("snapshot is of another ledger, service or layout")
	}
	there, err := f.holds(ctx, end, h.Position, time.Unix(0, h.PositionStoredNs))
	if err == nil && !there {
		err = fmt.Errorf("the ledger has another fact %d than the snapshot, or none: it lost what it had", h.Position)
	}
	return h, r, err
}
