package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/nearest"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// CheckPath refuses a path at which nothing is, with the nearest name in its directory and what to do. Any other fault
// of the path stays for the one that opens it.
func CheckPath(path, try string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return missing(path, try)
}

// CheckDirectory refuses a path at which there is no directory.
func CheckDirectory(path, try string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return missing(path, try)
	case err == nil && !info.IsDir():
		return Usage("%s is a file; name the directory that holds it. Try: %s", output.Quote(path), fault.Hint(try))
	}
	return nil
}

// CheckFile refuses a path at which nothing is, or a directory; - is standard input.
func CheckFile(path, try string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return Usage("%s is a directory; name a file in it. Try: %s", output.Quote(path), fault.Hint(try))
	}
	if path == "-" {
		return nil
	}
	return CheckPath(path, try)
}

func missing(path, try string) error {
	text := "no file or directory " + output.Quote(path)
	entries, _ := os.ReadDir(filepath.Dir(path)) // without a directory nothing is near
	near := nearest.Name(filepath.Base(path), func(yield func(string) bool) {
		for _, e := range entries {
			if !yield(e.Name()) {
				return
			}
		}
	})
	if near != "" {
		text += ". Nearest: " + output.Quote(filepath.Join(filepath.Dir(path), near))
	}
	return Usage("%s. Try: %s", text, fault.Hint(try))
}
