package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// ImageKeys returns the keys, one of which must have signed an image; nil means that images need no
// signature. The file belongs to the administrator: a line holds a key and then any text, and #
// begins a comment. A file without keys accepts no image. Each call reads the file, so a change
// applies from the next image on.
func ImageKeys(root layout.Root) (seal.Keys, error) {
	data, err := strictdir.ReadFile(root.ImageKeys())
	if _, there := os.Lstat(root.ImageKeys()); errors.Is(err, fs.ErrNotExist) && errors.Is(there, fs.ErrNotExist) {
		return nil, nil // a dangling link exists, and accepts no image
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys of images: %w", err)
	}
	keys := seal.Keys{}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			if err := seal.CheckKey(words[0]); err != nil {
				return nil, fmt.Errorf("%s: %w", root.ImageKeys(), err)
			}
			keys = append(keys, words[0])
		}
	}
	return keys, nil
}

// PinImageKeys writes the keys that the registry sent at a join. An existing file is the
// administrator's and stays as it is.
func PinImageKeys(root layout.Root, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if _, err := os.Lstat(root.ImageKeys()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, key := range keys {
		if err := seal.CheckKey(key); err != nil {
			return err
		}
	}
	list := strings.Join(keys, "\n") + "\n"
	return layout.Write(root.ImageKeys(), []byte(joinHead+digestOf(list)+"\n"+list), 0o644)
}

// joinHead is the beginning of a file that a join wrote. The digest of its keys follows, which
// shows whether they were changed.
const joinHead = "# One of these keys must have signed an image. Sent when this server joined; yours to change.\n" +
	"# sha256 of the keys as they were sent: "

// ImageKeysAsJoined reports whether the file of keys is as a join wrote it. A file that was written,
// changed or replaced by hand, or that cannot be read, is not.
func ImageKeysAsJoined(root layout.Root) bool {
	info, err := os.Lstat(root.ImageKeys())
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	data, err := strictdir.ReadFile(root.ImageKeys())
	if err != nil {
		return false
	}
	first, rest, _ := strings.Cut(string(data), "\n")
	second, list, _ := strings.Cut(rest, "\n")
	digest := digestOf(list)
	head, ok := strings.CutSuffix(first+"\n"+second, digest)
	return ok && head == joinHead
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
