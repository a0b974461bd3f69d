package strictdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// made makes a directory of a mode below dir.
func made(t *testing.T, mode fs.FileMode, parts ...string) string {
	t.Helper()
	path := filepath.Join(parts...)
	if err := errors.Join(os.MkdirAll(path, 0o700), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func written(t *testing.T, mode fs.FileMode, parts ...string) string {
	t.Helper()
	path := filepath.Join(parts...)
	if err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

// temp returns a directory that only this user can write, whatever the umask.
func temp(t *testing.T) string {
	t.Helper()
	return made(t, 0o700, t.TempDir())
}

// wantRefused expects the refusal of a path, and a text in it.
func wantRefused(t *testing.T, what string, err error, texts ...string) {
	t.Helper()
	r := fault.RefusalOf(err)
	if r.GetCode() != code.UnsafePermissions || r.GetTry() == "" {
		t.Errorf("%s: %v, want %s and a command", what, err, code.UnsafePermissions)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q in it", what, err, text)
		}
	}
}

func TestADirectoryThatOthersCanWriteIsRefused(t *testing.T) {
	dir := temp(t)
	for _, mode := range []fs.FileMode{0o777, 0o775, 0o757, 0o777 | fs.ModeSticky} {
		path := made(t, mode, dir, "data")
		wantRefused(t, mode.String(), Dir(path), path, "chmod go-w "+path)
	}
	if err := Dir(made(t, 0o755, dir, "data")); err != nil {
		t.Errorf("0755: %v", err)
	}
}

func TestADirectoryBelowOneThatOthersCanWriteIsRefused(t *testing.T) {
	dir := temp(t)
	parent := made(t, 0o777, dir, "parent")
	for _, path := range []string{made(t, 0o700, parent, "data"), filepath.Join(parent, "missing", "data")} {
		wantRefused(t, path, Dir(path), parent+" belongs")
	}
	if _, err := os.Lstat(filepath.Join(parent, "missing")); Make(filepath.Join(parent, "missing"), 0o700) == nil ||
		!errors.Is(err, fs.ErrNotExist) {
		t.Error("a directory was made below one that others can write")
	}
	made(t, 0o777|fs.ModeSticky, parent)
	if err := Make(filepath.Join(parent, "data"), 0o700); err != nil {
		t.Errorf("below a sticky directory: %v", err)
	}
}

func TestADataDirectoryIsNoLink(t *testing.T) {
	dir := temp(t)
	target := made(t, 0o700, dir, "target")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, "a link", Dir(link), target)
	if err := Make(filepath.Join(link, "data"), 0o700); err != nil { // such as /var/run
		t.Errorf("below a link: %v", err)
	}
	made(t, 0o777, target)
	wantRefused(t, "below a link to what others can write", Dir(filepath.Join(link, "data")), target+" belongs")
}

func TestAFileThatOthersCanWriteIsNotRead(t *testing.T) {
	dir := temp(t)
	if _, err := ReadFile(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	if data, err := ReadFile(written(t, 0o644, dir, "file")); err != nil || string(data) != "x" {
		t.Errorf("0644: %q, %v", data, err)
	}
	_, err := ReadSecret(written(t, 0o640, dir, "file"))
	wantRefused(t, "a secret that others can read", err, "chmod go-rwx")
	_, err = ReadFile(written(t, 0o666, dir, "file"))
	wantRefused(t, "0666", err, "mode 0666", "chmod go-w")
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	_, err = ReadFile(filepath.Join(dir, "link"))
	wantRefused(t, "a link to what others can write", err, filepath.Join(dir, "file"))
	if err := File(dir); !fault.Is(err, fault.Invalid) {
		t.Errorf("a directory in a file's place: %v", err)
	}
}

func TestATreeIsRefusedForAnythingInIt(t *testing.T) {
	dir := temp(t)
	if err := errors.Join(Tree(dir), Tree(filepath.Join(dir, "none"))); err != nil {
		t.Error(err)
	}
	file := written(t, 0o620, made(t, 0o700, dir, "keys"), "operator.seed")
	wantRefused(t, "a file in it", Tree(dir), file)
}

func TestAnEntryOfAnotherUserIsRefused(t *testing.T) {
	const me, root, another = 1000, 0, 1001
	for _, c := range []struct {
		owner int
		mode  fs.FileMode
		p     position
		safe  bool
	}{
		{me, fs.ModeDir | 0o700, last, true},
		{root, fs.ModeDir | 0o755, last, true},
		{another, fs.ModeDir | 0o700, last, false},
		{another, fs.ModeDir | 0o755, onTheWay, false},
		{another, fs.ModeDir | fs.ModeSticky | 0o777, onTheWay, false},
		{root, fs.ModeDir | fs.ModeSticky | 0o777, onTheWay, true},
		{root, fs.ModeDir | fs.ModeSticky | 0o777, last, false},
		{root, fs.ModeDir | 0o775, onTheWay, false},
		{root, fs.ModeSymlink | 0o777, onTheWay, true},
		{another, fs.ModeSymlink | 0o777, onTheWay, false},
		{me, 0o644 | fs.ModeSticky, last, true},
		{me, 0o664 | fs.ModeSticky, onTheWay, false},
	} {
		if got := safe(c.owner, me, c.mode, c.p); got != c.safe {
			t.Errorf("owner %d, mode %s, last %t: safe %t, want %t", c.owner, c.mode, c.p, got, c.safe)
		}
	}
	want := "chown -h " + name(me) + " /d && chmod go-w /d"
	if got := correction("/d", another, me, fs.ModeDir|0o777); got != want {
		t.Errorf("correction %q, want %q", got, want)
	}
}

func TestADirectoryOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a directory of another user")
	}
	dir := made(t, 0o700, temp(t), "theirs")
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, "another user's", Dir(dir), dir+" belongs", "chown -h")
	wantRefused(t, "below another user's", Dir(filepath.Join(dir, "data")), dir+" belongs")
}
