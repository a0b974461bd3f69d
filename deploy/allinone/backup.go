package allinone

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// A backup is a tar archive, and the sha256 of the archive behind it. The archive holds backupHead, then the files of
// the keys, then each stream as NAME/stream.json and parts of its snapshot.
const (
	backupHead    = "backup.json"
	backupFiles   = "files/"
	backupStreams = "streams/"
	streamHead    = "stream.json"
	backupPart    = 4 << 20
)

// backupFormat is the format of a backup.
var backupFormat = format.Spec{Kind: "backup", Now: 1, Floor: 1}

// backedUp are the streams in a backup, in the order in which they are read. A consumer acknowledges an intent or a
// report after its facts are in the ledger, and a chunk is stored before the fact that needs it; so what the ledger of
// the backup lacks is redelivered, and what it names is there. DESIRED is written anew from the ledger.
var backedUp = []string{
	topology.Intents, topology.Reports, topology.DeadLetter, topology.Ledger, topology.Blobs,
}

// keptFiles are the files and directories of a data directory that are no stream and cannot be made again.
var keptFiles = []string{"trust", "accounts", "operator.json", "address", "webhooks"}

// backupInfo is the head of a backup.
type backupInfo struct {
	format.Stamp
	Made time.Time `json:"made"`
	Keys bool      `json:"keys"`
}

// Backup describes a backup of a Garrison that runs.
type Backup struct {
	Data        string // the data directory with the keys
	URL         string // of the bus; empty means the garrisond of Data
	File        string // is created, and must not exist
	WithoutKeys bool
	AllowPlain  bool
	Log         io.Writer
}

// WriteBackup writes a backup of a bus that runs, as of one moment of its ledger. The file appears when it is complete.
func WriteBackup(ctx context.Context, b Backup) (err error) {
	if _, err := os.Lstat(b.File); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists; a backup never replaces a file", b.File)
	}
	if err := checkPermissions(b.Data); err != nil {
		return err
	}
	if b.URL == "" {
		if b.URL, err = urlOf(ctx, b.Data); err != nil {
			return err
		}
	}
	if err := ownsKeys(b.Data); err != nil {
		return err
	}
	if _, err := trust.OpenAuthority(filepath.Join(b.Data, "trust")); err != nil {
		return err
	}
	size, err := writeArchive(b.File, func(archive *tar.Writer) error {
		p := Provisioning{Data: b.Data, URL: b.URL, AllowPlain: b.AllowPlain}
		return p.as(ctx, topology.UserProvision, func(c *bus.Conn) error {
			return b.write(ctx, bus.NewStreams(c), archive)
		})
	})
	if err == nil {
		fmt.Fprintln(b.Log, listing.Written(b.File, size))
	}
	return err
}

// writeArchive writes an archive with its sha256 behind it, as openArchive reads it, and returns the size of the file,
// which appears when it is complete.
func writeArchive(file string, fill func(*tar.Writer) error) (size int64, err error) {
	out, err := renameio.NewPendingFile(file, renameio.WithPermissions(0o600))
	if err != nil {
		return 0, err
	}
	defer func() { _ = out.Cleanup() }()
	digest := sha256.New()
	archive := tar.NewWriter(io.MultiWriter(out, digest))
	if err := fill(archive); err != nil {
		return 0, err
	}
	if err := archive.Close(); err != nil {
		return 0, err
	}
	if _, err := out.Write(digest.Sum(nil)); err != nil {
		return 0, err
	}
	if size, err = out.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	return size, out.CloseAtomicallyReplace()
}

// ownsKeys refuses a directory without keys, and one of another user: to open either would make files there.
func ownsKeys(data string) error {
	if err := hasKeys(data); err != nil {
		return fmt.Errorf("%w; pass --data with the directory of this Garrison", err)
	}
	info, err := os.Stat(filepath.Join(data, "trust", "authority.json"))
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user %d: run it as the user who owns %s", info.Name(), owner.Uid, data)
	}
	return nil
}

// hasKeys refuses a directory in which OpenAuthority or readSecretKey would make new keys.
func hasKeys(data string) error {
	for _, name := range []string{"authority.json", "secrets.key"} {
		if _, err := os.Stat(filepath.Join(data, "trust", name)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the keys are not there: trust/%s is missing", name)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (b Backup) write(ctx context.Context, streams *bus.Streams, to *tar.Writer) error {
	info := backupInfo{Stamp: backupFormat.Stamp(), Made: time.Now().UTC(), Keys: !b.WithoutKeys}
	if err := addJSON(to, backupHead, info); err != nil {
		return err
	}
	if !b.WithoutKeys {
		for _, name := range keptFiles {
			if err := addFiles(to, b.Data, name); err != nil {
				return err
			}
		}
	}
	for _, name := range backedUp {
		s, err := streams.OpenSnapshot(ctx, name)
		if err != nil {
			return err
		}
		if topology.IsFenced(s.Config) {
			return fmt.Errorf("stream %s moved or moves to a cluster: pass --url of the cluster", name)
		}
		if err := addJSON(to, backupStreams+name+"/"+streamHead, s.Head()); err != nil {
			return err
		}
		parts := &partWriter{to: to, name: backupStreams + name + "/"}
		if _, err := s.WriteTo(parts); err != nil {
			return err
		}
		if err := parts.flush(); err != nil {
			return err
		}
		fmt.Fprintf(b.Log, "%s: %d messages up to %d\n", name, s.State.Msgs, s.State.LastSeq)
	}
	return nil
}

// addFiles adds a file, or a directory with all that is in it; one that is missing is left out.
func addFiles(to *tar.Writer, dir, name string) error {
	return filepath.WalkDir(filepath.Join(dir, name), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was replaced meanwhile
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return add(to, backupFiles+filepath.ToSlash(relative), text)
	})
}

func addJSON(to *tar.Writer, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return add(to, name, text)
}

func add(to *tar.Writer, name string, data []byte) error {
	err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(data))})
	if err == nil {
		_, err = to.Write(data)
	}
	return err
}

// partWriter adds what is written to it in parts.
type partWriter struct {
	to    *tar.Writer
	name  string
	held  bytes.Buffer
	parts int
}

// Write implements io.Writer.
func (w *partWriter) Write(data []byte) (int, error) {
	n, _ := w.held.Write(data)
	if w.held.Len() < backupPart {
		return n, nil
	}
	return n, w.flush()
}

func (w *partWriter) flush() error {
	if w.held.Len() == 0 {
		return nil
	}
	w.parts++
	err := add(w.to, fmt.Sprintf("%s%06d", w.name, w.parts), w.held.Bytes())
	w.held.Reset()
	return err
}
