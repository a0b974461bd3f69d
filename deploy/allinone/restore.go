package allinone

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Restoring describes how a backup becomes a data directory.
type Restoring struct {
	File string
	Data string // is created; may exist when it is empty
	Keys string // a data directory with the keys of a backup without them
	// Present is the data directory until now; what its bus refuses stays refused. Empty means that of Keys, or none.
	Present string
	Log     io.Writer
}

// Restore makes a data directory of a backup, which it checks as a whole first. The directory appears when it is
// complete: an error leaves nothing behind.
func Restore(ctx context.Context, r Restoring) error {
	r.Data = filepath.Clean(r.Data)
	in, size, err := openArchive(r.File, "backup")
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if entries, err := os.ReadDir(r.Data); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty; restore into a directory that does not exist", r.Data)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(r.Data)
	if err := strictdir.Make(parent, 0o700); err != nil {
		return err
	}
	if err := os.Remove(r.Data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s cannot be replaced (a mount point?); name a directory below it: %w", r.Data, err)
	}
	made, err := os.MkdirTemp(parent, ".restore-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(made) }()
	x := &restore{Restoring: r, dir: made}
	defer func() { _ = x.close() }() // after an error, what it made is deleted
	if err := x.read(ctx, tar.NewReader(io.LimitReader(in, size))); err != nil {
		return fmt.Errorf("restore %s: %w", r.File, err)
	}
	return os.Rename(made, r.Data)
}

// openArchive opens a backup, or another archive with a digest behind it, at its start, and returns the size of its
// archive. It refuses one that was truncated or damaged; the digest has no key, so it does not tell who wrote it.
func openArchive(file, what string) (f *os.File, size int64, err error) {
	if f, err = regular.Open(file); err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	size = info.Size() - sha256.Size
	digest, want := sha256.New(), make([]byte, sha256.Size)
	if size > 0 {
		if _, err := io.CopyN(digest, f, size); err != nil {
			return nil, 0, err
		}
		if _, err := io.ReadFull(f, want); err != nil {
			return nil, 0, err
		}
	}
	if size <= 0 || !bytes.Equal(digest.Sum(nil), want) {
		return nil, 0, fmt.Errorf("%s is no whole %s: it was truncated or damaged, or is something else", file, what)
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, size, err
}

// restore is a restore under way.
type restore struct {
	Restoring
	dir     string
	head    *backupInfo // nil until it was read
	have    []string    // the streams that were opened
	address []byte      // that the backup's garrisond listened at

	bus    *Garrison // without services; nil until the keys are there
	conn   *bus.Conn
	stream *restoredStream // that is being read, or nil
}

// restoredStream takes the parts of one stream.
type restoredStream struct {
	head  bus.SnapshotHead
	parts *io.PipeWriter
	done  chan error
}

func (x *restore) read(ctx context.Context, from *tar.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return x.finish(ctx)
		}
		if err != nil {
			return err
		}
		if err := x.entry(ctx, h.Name, from); err != nil {
			return err
		}
	}
}

// entry reads an entry of a backup, and refuses one that has no place where it is.
func (x *restore) entry(ctx context.Context, name string, from io.Reader) error {
	first, _, _ := strings.Cut(strings.TrimPrefix(name, backupFiles), "/")
	stream, inStream := strings.CutPrefix(path.Dir(name), backupStreams)
	switch {
	case x.head == nil && name == backupHead:
		return x.begin(from)
	case x.head == nil:
		return fmt.Errorf("entry %q is before %s", name, backupHead)
	case strings.HasPrefix(name, backupFiles) && x.head.Keys && x.bus == nil && slices.Contains(keptFiles, first):
		return x.file(strings.TrimPrefix(name, backupFiles), from)
	case inStream && path.Base(name) == streamHead:
		return x.openStream(ctx, stream, from)
	case inStream && x.stream != nil && x.stream.head.Config.Name == stream:
		_, err := io.Copy(x.stream.parts, from)
		return err
	}
	return fmt.Errorf("entry %q does not belong there", name)
}

// begin reads the head, and takes the keys from elsewhere where the backup has none.
func (x *restore) begin(from io.Reader) error {
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	var info backupInfo
	if err := backupFormat.ReadJSON(x.File, text, &info); err != nil {
		return err
	}
	x.head = &info
	switch {
	case !info.Keys && x.Keys == "":
		return errors.New("the backup holds no keys; pass --keys DIR, a data directory that has them")
	case info.Keys && x.Keys != "":
		return errors.New("the backup holds its keys; leave out --keys")
	case info.Keys:
		return nil
	}
	for _, name := range keptFiles {
		if err := x.keep(name); err != nil {
			return err
		}
	}
	return nil
}

// keep takes a file, or every file of a directory, from the directory with the keys.
func (x *restore) keep(name string) error {
	return filepath.WalkDir(filepath.Join(x.Keys, name), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(x.Keys, path)
		if err != nil {
			return err
		}
		f, err := regular.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		return x.file(relative, f)
	})
}

// file writes a file of the data directory.
func (x *restore) file(name string, from io.Reader) error {
	if !filepath.IsLocal(name) || filepath.Clean(name) != name {
		return fmt.Errorf("entry %q is outside of the data directory", name)
	}
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	if name == "address" { // the bus of the restore gets another one
		x.address = text
		return nil
	}
	to := filepath.Join(x.dir, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return renameio.WriteFile(to, text, 0o600)
}

// openStream begins a stream. The first one starts the bus, as the keys are there now. A stream gets the settings for
// one server: those of a cluster may exclude it.
func (x *restore) openStream(ctx context.Context, name string, from io.Reader) error {
	want, ok := topology.StreamNamed(1, name)
	if !ok || !slices.Contains(backedUp, name) || slices.Contains(x.have, name) {
		return fmt.Errorf("the stream %q does not belong there", name)
	}
	x.have = append(x.have, name)
	if err := x.closeStream(ctx); err != nil {
		return err
	}
	if err := x.startBus(ctx); err != nil {
		return fmt.Errorf("start the bus: %w", err)
	}
	s := &restoredStream{done: make(chan error, 1)}
	if err := json.NewDecoder(from).Decode(&s.head); err != nil {
		return err
	}
	if s.head.Config.Name != name {
		return fmt.Errorf("the stream %q says that it is %q", name, s.head.Config.Name)
	}
	want.Metadata = s.head.Config.Metadata
	s.head.Config = want
	r, w := io.Pipe()
	s.parts = w
	go func() {
		err := bus.NewStreams(x.conn).Restore(ctx, s.head.Config, s.head.State, r)
		_ = r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // what is still written fails with the cause
		s.done <- err
	}()
	x.stream = s
	return nil
}

// closeStream ends the stream that is read, and compares it with what was backed up.
func (x *restore) closeStream(ctx context.Context) error {
	s := x.stream
	if s == nil {
		return nil
	}
	x.stream = nil
	_ = s.parts.Close()
	if err := <-s.done; err != nil {
		return err
	}
	have, err := x.conn.Stream(ctx, s.head.Config.Name)
	if err != nil {
		return err
	}
	if have.LastSequence != s.head.State.LastSeq || have.Messages != s.head.State.Msgs {
		return fmt.Errorf("stream %s has %d messages up to %d, want %d up to %d", s.head.Config.Name, have.Messages,
			have.LastSequence, s.head.State.Msgs, s.head.State.LastSeq)
	}
	fmt.Fprintf(x.Log, "%s: %d messages up to %d\n", s.head.Config.Name, have.Messages, have.LastSequence)
	return nil
}

// startBus starts a bus in the new directory to which no client can connect.
func (x *restore) startBus(ctx context.Context) error {
	if x.bus != nil {
		return nil
	}
	if err := hasKeys(x.dir); err != nil {
		return fmt.Errorf("%w; pass --keys with the directory of this Garrison", err)
	}
	x.bus = &Garrison{
		config:    Config{Data: x.dir, Listen: "127.0.0.1:0", Services: []string{}, Log: zerolog.Nop()},
		listening: make(chan struct{}),
	}
	if err := x.bus.openData(); err != nil {
		return err
	}
	err := x.bus.startBus(ctx)
	if err == nil {
		x.conn, err = x.bus.dial(topology.UserProvision)
	}
	return err
}

// finish ends the last stream, declares those that were not in the backup, and stops the bus.
func (x *restore) finish(ctx context.Context) error {
	for _, name := range backedUp {
		if !slices.Contains(x.have, name) {
			return fmt.Errorf("the backup does not hold the stream %s", name)
		}
	}
	if err := x.closeStream(ctx); err != nil {
		return err
	}
	if err := bus.NewStreams(x.conn).Provision(ctx, topology.Bus{Replicas: 1, SyncsAlways: true}); err != nil {
		return err
	}
	if err := x.close(); err != nil {
		return err
	}
	if err := x.record(); err != nil {
		return err
	}
	if x.address == nil {
		return os.Remove(filepath.Join(x.dir, "address"))
	}
	return renameio.WriteFile(filepath.Join(x.dir, "address"), x.address, 0o600)
}

// record notes the restore for the service access, with the keys that the control plane until now refuses.
func (x *restore) record() error {
	present := cmp.Or(x.Present, x.Keys)
	if present != "" {
		present = filepath.Join(present, "trust")
	}
	refused, err := trust.RecordRestore(filepath.Join(x.dir, "trust"), present, x.head.Made, time.Now())
	if err != nil {
		return err
	}
	if present != "" {
		fmt.Fprintf(x.Log, "%d keys stay refused, as in %s\n", refused, filepath.Dir(present))
	} else {
		fmt.Fprintln(x.Log, "who was revoked after the backup is let in again; --present DIR, with the data directory "+
			"until now, keeps them out")
	}
	fmt.Fprintf(x.Log, "revocations after %s may be lost: garrison restore\n", x.head.Made.Format(time.RFC3339))
	return nil
}

// close ends what is under way. It returns an error when the bus did not stop.
func (x *restore) close() (err error) {
	if x.stream != nil {
		_ = x.stream.parts.CloseWithError(errors.New("the restore ended"))
		<-x.stream.done
		x.stream = nil
	}
	if x.bus != nil {
		err = x.bus.Close()
		x.bus = nil
	}
	return err
}
