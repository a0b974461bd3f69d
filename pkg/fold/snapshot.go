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
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	viewv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/view/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
)

// A snapshot file is a length-delimited viewv1.Header, the canonical encoding, and the
// sha256 of both.

// snapshotFile returns the snapshot's path. A version that folds otherwise has a file of its own, so that one that is
// gone back to finds its snapshot, and one that is prepared writes its own beside it.
func (f *Follower) snapshotFile() string {
	digest := foldDigest(f.view, f.opts.Layout, f.hears)
	return filepath.Join(f.opts.Store, fmt.Sprintf("%s-%d-%x.view", f.opts.Service, snapshotFormat.Now, digest[:6]))
}

// save writes a snapshot, whole or not at all, when the view has changed since the last.
func (f *Follower) save() error {
	if f.opts.Store == "" || f.position == f.saved {
		return nil
	}
	var position uint64
	err := writeWhole(f.snapshotFile(), func(w io.Writer) (err error) {
		position, err = f.writeSnapshot(w)
		return err
	})
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	f.saved = position
	return nil
}

// prune deletes the snapshots of other versions, but for the newest: that of the version before or of the next one. It
// deletes too what a write left that was cut short.
func (f *Follower) prune() error {
	if f.opts.Store == "" {
		return nil
	}
	old, err := outdated(f.opts.Store, f.opts.Service, filepath.Base(f.snapshotFile()))
	for _, name := range old {
		if err := os.Remove(filepath.Join(f.opts.Store, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete the snapshot of an older version: %w", err)
		}
	}
	return err
}

// outdated returns the files in a directory that prune deletes for a service whose version has the snapshot own.
func outdated(dir, service, own string) (old []string, err error) {
	all, err := os.ReadDir(dir)
	newest, at := "", time.Time{}
	for _, e := range all {
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), service+"-") || strings.HasPrefix(e.Name(), own) {
			continue
		}
		switch {
		case strings.HasSuffix(e.Name(), ".view") && info.ModTime().After(at):
			old, newest, at = append(old, newest), e.Name(), info.ModTime()
		case strings.HasSuffix(e.Name(), ".view"),
			strings.HasSuffix(e.Name(), ".view.tmp") && time.Since(info.ModTime()) > cutShortAfter:
			old = append(old, e.Name())
		}
	}
	return slices.DeleteFunc(old, func(name string) bool { return name == "" }), err
}

// cutShortAfter is when a snapshot that is being written counts as left behind.
const cutShortAfter = time.Hour

// writeWhole writes a file, whole or not at all, and makes its directory.
func writeWhole(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// Always the same name, so that the next write replaces the remains of a killed process.
	tmp, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = write(tmp)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp.Name())) // it may have filled the disk
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return strictdir.Sync(filepath.Dir(path))
}

func (f *Follower) writeSnapshot(file io.Writer) (uint64, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(file, sum), snapshotBuffer)
	stamp := snapshotFormat.Stamp()
	header := &viewv1.Header{
		Service: f.opts.Service, Layout: f.opts.Layout, Position: f.position,
		LedgerCreatedNs: f.source.created.UnixNano(), PositionStoredNs: f.stored.UnixNano(),
		Format: stamp.Format, FormatFloor: stamp.Floor,
		Kinds: kinds(f.hears), FoldDigest: foldDigest(f.view, f.opts.Layout, f.hears),
		Unread: f.unread.list(), Misfits: f.unfit.list(),
	}
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

// load reads the snapshot into the view. It does not use a snapshot that is missing, damaged, of another
// ledger, or folded differently.
func (f *Follower) load(ctx context.Context, end bus.Stream) error {
	if f.opts.Store == "" {
		return nil
	}
	file, err := os.Open(f.snapshotFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var h *viewv1.Header
	var rows *bufio.Reader
	if err == nil {
		defer func() { _ = file.Close() }()
		h, rows, err = f.checkSnapshot(ctx, end, file)
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
		return errors.Join(fmt.Errorf("snapshot %s is whole but cannot be read: %w", f.snapshotFile(), err),
			os.Remove(f.snapshotFile()))
	}
	f.position, f.stored = h.Position, time.Unix(0, h.PositionStoredNs)
	f.waiters.reach(f.position)
	f.unread.load(h.Unread)
	f.unfit.load(h.Misfits)
	f.view.Loaded()
	f.opts.Log.Info().Uint64(logs.Sequence, f.position).Msg("snapshot read")
	return nil
}

// snapshotBuffer is how much of a snapshot is read or written at once.
const snapshotBuffer = 1 << 20

// checkSnapshot checks everything that can be checked before the first row reaches the view. It reads the whole file,
// which may be larger than the view, and holds a buffer of it.
func (f *Follower) checkSnapshot(
	ctx context.Context,
	end bus.Stream,
	file *os.File,
) (*viewv1.Header, *bufio.Reader, error) {
	size, err := checkSum(file)
	if err != nil {
		return nil, nil, err
	}
	r := bufio.NewReaderSize(io.NewSectionReader(file, 0, size), snapshotBuffer)
	h := &viewv1.Header{}
	if err := protodelim.UnmarshalFrom(r, h); err != nil {
		return nil, nil, fmt.Errorf("read snapshot's header: %w", err)
	}
	if err := f.usable(h); err != nil {
		return nil, nil, err
	}
	there, err := f.source.holds(ctx, end, h.Position, time.Unix(0, h.PositionStoredNs))
	if err == nil && !there {
		err = fmt.Errorf("the ledger has another fact %d than the snapshot, or none: it lost what it had", h.Position)
	}
	return h, r, err
}

// checkSum compares a snapshot with the checksum at its end, and returns the size of what is before it.
func checkSum(file *os.File) (size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if size = info.Size() - sha256.Size; size < 0 {
		return 0, errors.New("snapshot is cut short")
	}
	sum, want := sha256.New(), make([]byte, sha256.Size)
	if _, err := io.CopyBuffer(sum, io.NewSectionReader(file, 0, size), make([]byte, snapshotBuffer)); err != nil {
		return 0, fmt.Errorf("read snapshot: %w", err)
	}
	if _, err := file.ReadAt(want, size); err != nil {
		return 0, fmt.Errorf("read snapshot's checksum: %w", err)
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return 0, errors.New("snapshot's checksum is wrong")
	}
	return size, nil
}
