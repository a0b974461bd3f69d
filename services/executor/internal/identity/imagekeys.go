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
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// ImageKeys gives the keys of which one must have signed an image; nil means that images
// need not be signed. They are lines of a file of the administrator's: a word, and after it
// whatever helps people; # begins a comment. A file without keys trusts nobody. It is read
// whenever it is asked for, so a change holds from the next image on.
func ImageKeys(root layout.Root) (seal.Keys, error) {
	data, err := os.ReadFile(root.ImageKeys())
	if _, there := os.Lstat(root.ImageKeys()); errors.Is(err, fs.ErrNotExist) && errors.Is(there, fs.ErrNotExist) {
		return nil, nil // a link that leads nowhere is there, and trusts nobody
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

// PinImageKeys keeps the keys that a join was told. A file that is there already is the
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
	return layout.Write(root.ImageKeys(), []byte(toldHead+digestOf(list)+"\n"+list), 0o644)
}

// toldHead is how the file begins that a join wrote. The digest of its keys follows, by
// which it is known whether anybody changed them.
const toldHead = "# One of these keys must have signed an image. Told when this server joined; yours to change.\n# sha256 of the keys as they were told: "

// ImageKeysAsTold says whether the file of keys is as a join wrote it. One that somebody
// else wrote, changed or replaced, or that cannot be read, is not.
func ImageKeysAsTold(root layout.Root) bool {
	info, err := os.Lstat(root.ImageKeys())
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	data, err := os.ReadFile(root.ImageKeys())
	told, begins := strings.CutPrefix(string(data), toldHead)
	digest, list, _ := strings.Cut(told, "\n")
	return err == nil && begins && digest == digestOf(list)
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
