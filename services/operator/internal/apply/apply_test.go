package apply

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func TestADirectoryIsReadWithoutPipesAndLinksOutOfIt(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(path string) error{
		"a pipe":       func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a link out":   func(path string) error { return os.Symlink("/etc/hostname", path) },
		"a device":     func(path string) error { return os.Symlink("/dev/zero", path) },
		"a link to ..": func(path string) error { return os.Symlink("..", path) },
	} {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "a.yaml"), nil, 0o600),
			make(filepath.Join(dir, "b.yaml"))); err != nil {
			t.Fatal(err)
		}
		_, err := readFiles(&cli.Env{}, dir)
		if cli.CodeOf(err) != cli.ExitUsage {
			t.Errorf("%s: %v", name, err)
		}
		_, err = readFiles(&cli.Env{}, filepath.Join(dir, "b.yaml"))
		if err == nil && name != "a link out" {
			t.Errorf("%s as a file: no error", name)
		}
	}
}
