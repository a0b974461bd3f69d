package allinone

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// A file of keys is a tar archive, and the sha256 of the archive behind it, as a backup is. The archive holds keysHead,
// then the files of sharedFiles.
const (
	keysHead = "keys.json"
	keysDir  = "trust"
)

// sharedFiles are what members of a cluster have in common: the keys, and the first operator, who is one for all.
var sharedFiles = []string{keysDir, operatorFile}

const operatorFile = "operator.json"

var keysFormat = format.Spec{Kind: "file of keys", Now: 1, Floor: 1}

// keysInfo is the head of a file of keys.
type keysInfo struct {
	format.Stamp
	Made time.Time `json:"made"`
}

// Sharing describes how garrisonds of one cluster come to the same keys.
type Sharing struct {
	Data string // the data directory
	File string // every key is in it: its reader owns the site
	Log  io.Writer
}

// ExportKeys writes the keys of a data directory into a file that must not exist, for ImportKeys on other hosts. It
// creates the keys where there are none.
func ExportKeys(s Sharing) error {
	if _, err := os.Lstat(s.File); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists; a file of keys never replaces a file", s.File)
	}
	have, err := checkData(s.Data)
	if err != nil {
		return err
	}
	if err := strictdir.Make(s.Data, 0o700); err != nil {
		return err
	}
	if err := makeKeys(s.Data); err != nil {
		return err
	}
	if err := adoptData(s.Data, have); err != nil {
		return fmt.Errorf("write the format of the data directory: %w", err)
	}
	size, err := writeArchive(s.File, func(archive *tar.Writer) error {
		err := addJSON(archive, keysHead, keysInfo{keysFormat.Stamp(), time.Now().UTC()})
		for _, name := range sharedFiles {
			if err == nil {
				err = addFiles(archive, s.Data, name)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Log, "%s\nIt holds every key of this site. Copy it to the other members over a safe way, "+
		"run there:\n  garrisond import-keys %s --data DIR\nand delete it everywhere.\n",
		listing.Written(s.File, size), filepath.Base(s.File))
	return nil
}

// makeKeys creates what is missing: the keys of the authority, of secrets and of the CA, and the first operator.
func makeKeys(data string) error {
	dir := filepath.Join(data, keysDir)
	a, err := trust.OpenAuthority(dir)
	if err != nil {
		return err
	}
	if _, err := a.SecretKeyFile(); err != nil {
		return err
	}
	if _, err = trust.OpenCA(dir, time.Now()); err != nil {
		return err
	}
	file := filepath.Join(data, operatorFile)
	c, why, err := operatorContext(a, file, time.Now())
	if err != nil || why == "" {
		return err
	}
	c.URL = "tls://127.0.0.1:4222" // a start writes the addresses of the members
	return c.Write(file)
}

// ImportKeys makes a data directory with the keys of a file. It changes no directory that has keys or streams: one that
// has these very keys is left as it is, and any other one is refused. An error leaves nothing behind.
func ImportKeys(s Sharing) error {
	if err := strictdir.Secret(s.File); err != nil {
		return err
	}
	in, size, err := openArchive(s.File, "file of keys")
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := strictdir.Make(s.Data, 0o700); err != nil {
		return err
	}
	made, err := os.MkdirTemp(s.Data, ".keys-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(made) }()
	if err := readKeys(tar.NewReader(io.LimitReader(in, size)), made); err != nil {
		return fmt.Errorf("read %s: %w", s.File, err)
	}
	same, err := sameKeys(s.Data, made)
	if err != nil {
		return err
	}
	if same {
		fmt.Fprintf(s.Log, "%s has these keys already\n", s.Data)
		return nil
	}
	for _, name := range []string{operatorFile, keysDir} { // a directory without keys is imported into again
		if err := os.Rename(filepath.Join(made, name), filepath.Join(s.Data, name)); err != nil {
			return err
		}
	}
	if err := strictdir.Sync(s.Data); err != nil {
		return err
	}
	fmt.Fprintf(s.Log, "%s has the keys. Start this member with: garrisond --data %s --listen HOST:4222 "+
		"--cluster HOST,HOST,HOST\n", s.Data, s.Data)
	return nil
}

// readKeys writes the files of an archive below a directory, and opens the keys as a check.
func readKeys(from *tar.Reader, dir string) error {
	for known := false; ; known = true {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(from)
		if err != nil {
			return err
		}
		if known {
			err = keepShared(h.Name, text, dir)
		} else {
			err = readKeysHead(h.Name, text)
		}
		if err != nil {
			return err
		}
	}
	if err := hasKeys(dir); err != nil {
		return err
	}
	return makeKeys(dir)
}

func readKeysHead(name string, text []byte) error {
	if name != keysHead {
		return fmt.Errorf("entry %q is before %s", name, keysHead)
	}
	var info keysInfo
	return keysFormat.ReadJSON(name, text, &info)
}

// keepShared writes one of the shared files below a directory.
func keepShared(entry string, text []byte, dir string) error {
	name, isFile := strings.CutPrefix(entry, backupFiles)
	shared := name == operatorFile || strings.HasPrefix(name, keysDir+"/")
	if !isFile || !shared || !filepath.IsLocal(name) || filepath.Clean(name) != name {
		return fmt.Errorf("entry %q does not belong in a file of keys", entry)
	}
	to := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return renameio.WriteFile(to, text, 0o600)
}

// sameKeys reports whether a data directory has the keys in another one. It refuses a directory with other keys, or
// with streams.
func sameKeys(data, other string) (bool, error) {
	for _, streams := range []string{"jetstream", "cluster"} {
		if _, err := os.Lstat(filepath.Join(data, streams)); !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("%s has streams already; import into a directory that does not exist", data)
		}
	}
	keys := filepath.Join(keysDir, "keys")
	next, err := os.ReadDir(filepath.Join(other, keys))
	if err != nil {
		return false, err
	}
	if _, err := os.Lstat(filepath.Join(data, keysDir)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, file := range next {
		have, err := os.ReadFile(filepath.Join(data, keys, file.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("%s has keys already, and not %s; import into a directory that does not exist",
				data, file.Name())
		}
		want, wanted := os.ReadFile(filepath.Join(other, keys, file.Name()))
		if err := errors.Join(err, wanted); err != nil {
			return false, err
		}
		if !bytes.Equal(have, want) {
			return false, fmt.Errorf("%s has keys of another site (%s differs); import into a directory that does not "+
				"exist", data, file.Name())
		}
	}
	return true, nil
}
