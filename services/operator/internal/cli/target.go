package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/listing"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// secretRoom is how many bytes are taken for a token before it is made; none is as long.
const secretRoom = 4 << 10

// SayWritten prints which file a command wrote, and its size.
func SayWritten(env *Env, path string) {
	if info, err := os.Stat(path); err == nil { // it may be gone already, or a person may have moved it
		env.Say("%s", listing.Written(path, info.Size()))
	}
}

// CheckTarget refuses a path that no file can be written to, before anything is asked or made: a directory, a device
// such as /dev/null, which a rename would replace, and a directory that is missing or not writable. "" is no path.
func CheckTarget(path string) error {
	t, err := reserve(path, 0)
	t.Discard()
	return err
}

// Target is a file that appears whole once it is known what it holds, with the mode 0600. A nil target is no file.
type Target struct{ pending *renameio.PendingFile }

// ReserveTarget makes room for a token before the token is made, so that a full disk or a path that CheckTarget refuses
// loses none. "" is no path.
func ReserveTarget(path string) (*Target, error) { return reserve(path, secretRoom) }

func reserve(path string, room int) (*Target, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, Usage("%s is not a regular file, and is not replaced. Try: the name of a new file",
			listing.Quote(path))
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, Usage("there is no directory %[1]s for %[2]s. Try: mkdir -p %[1]s", listing.Quote(dir),
			listing.Quote(path))
	}
	pending, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithPermissions(0o600))
	if err != nil {
		return nil, Usage("cannot write to directory %s: %v. Try: a file in another directory", listing.Quote(dir),
			reason(err))
	}
	t := &Target{pending}
	if err := t.fill(make([]byte, room)); err != nil {
		t.Discard()
		return nil, Usage("cannot write %s: %v. Try: a file in another directory", listing.Quote(path), reason(err))
	}
	return t, nil
}

// reason returns why a file cannot be written, without the name of the temporary file.
func reason(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// fill writes to the beginning of the file, and to the disk.
func (t *Target) fill(data []byte) error {
	if _, err := t.pending.WriteAt(data, 0); err != nil {
		return err
	}
	return t.pending.Sync()
}

// KeepOrShow writes a secret into the room that was made; without a file it is printed, from the answer that has it.
func (t *Target) KeepOrShow(env *Env, answer proto.Message, secret string) error {
	if t == nil {
		return output.ShowBare(env.Output, answer, secret)
	}
	return t.Keep(secret)
}

// Keep writes what the file holds, and a newline, into the room that was made. A nil target keeps nothing.
func (t *Target) Keep(text string) error {
	if t == nil {
		return nil
	}
	if err := t.fill([]byte(text + "\n")); err != nil {
		return err
	}
	if err := t.pending.Truncate(int64(len(text)) + 1); err != nil {
		return err
	}
	return t.pending.CloseAtomicallyReplace()
}

// Discard removes what was begun and not kept.
func (t *Target) Discard() {
	if t != nil {
		_ = t.pending.Cleanup() // of a file that was kept there is nothing to remove
	}
}
