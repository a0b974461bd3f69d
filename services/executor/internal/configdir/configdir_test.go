package configdir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/render"
	"github.com/garrison-fleet/garrison/services/executor/internal/configdir"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
)

func tree(files ...configdir.File) configdir.Tree {
	return configdir.Tree{Files: files, Group: os.Getegid()}
}

func file(path, text string) configdir.File {
	return configdir.File{Path: path, Mode: 0o640, Data: []byte(text)}
}

// placed returns a tree on the disk, unsealed again when the test has ended.
func placed(t *testing.T, c configdir.Tree) string {
	t.Helper()
	parent := filepath.Join(t.TempDir(), "configs")
	t.Cleanup(func() { _ = imagedir.RemoveTree(parent) })
	dir := filepath.Join(parent, c.Digest())
	if err := c.Place(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestADigestTellsTreesApart(t *testing.T) {
	base := tree(file("a", "x"), file("b/c", "y"))
	if got := tree(file("b/c", "y"), file("a", "x")); got.Digest() != base.Digest() {
		t.Error("the order makes a difference")
	}
	other := tree(file("a", "x"), file("b/c", "y"))
	other.Group++
	private := tree(file("a", "x"), file("b/c", "y"))
	private.Files[0].Mode = 0o600
	for name, c := range map[string]configdir.Tree{
		"nothing": {}, "a name": tree(file("a2", "x"), file("b/c", "y")),
		"content": tree(file("a", "x2"), file("b/c", "y")),
		"fewer":   tree(file("a", "x")), "a mode": private, "a group": other,
		"contents exchanged": tree(file("a", "y"), file("b/c", "x")),
	} {
		if c.Digest() == base.Digest() {
			t.Errorf("%s makes no difference", name)
		}
	}
}

func TestWhatWasPlacedIsWholeSealedAndFoundAgain(t *testing.T) {
	c := tree(file("a", "x"), file("b/c", "y"))
	dir := placed(t, c)
	if err := configdir.Check(dir); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "b")); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("a directory: %v, %v", info, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) != 1 {
		t.Errorf("beside it: %v", entries)
	}
	if err := c.Place(dir); err != nil { // whatever is there
		t.Error(err)
	}
}

func TestDamageIsFoundAndMended(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"content": func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("y"), 0o640) },
		"a mode":  func(dir string) error { return os.Chmod(filepath.Join(dir, "a"), 0o666) },
		"a file more": func(dir string) error {
			_ = os.Chmod(dir, 0o755)
			return os.WriteFile(filepath.Join(dir, "more"), nil, 0o640)
		},
		"a file less": func(dir string) error {
			_ = os.Chmod(dir, 0o755)
			return os.Remove(filepath.Join(dir, "a"))
		},
		"a link in its place": func(dir string) error {
			_ = os.Chmod(dir, 0o755)
			_ = os.Rename(filepath.Join(dir, "a"), filepath.Join(filepath.Dir(dir), "elsewhere"))
			return os.Symlink("../elsewhere", filepath.Join(dir, "a"))
		},
		"everything": imagedir.RemoveTree,
	} {
		t.Run(name, func(t *testing.T) {
			c := tree(file("a", "x"), file("b/c", "y"))
			dir := placed(t, c)
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			if configdir.Check(dir) == nil {
				t.Error("it is not found")
			}
			if err := c.Place(dir); err != nil || configdir.Check(dir) != nil {
				t.Errorf("it is not mended: %v", err)
			}
		})
	}
}

func TestTemplatesAreReadFromWithinTheImageOnly(t *testing.T) {
	image := t.TempDir()
	for name, text := range map[string]string{
		"conf": "level={{.metadata.level}}\n", "large": strings.Repeat("x", render.MaxTemplate+1),
	} {
		if err := os.WriteFile(filepath.Join(image, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(image, "link")); err != nil {
		t.Fatal(err)
	}
	data := render.Data{Metadata: map[string]string{"level": "info"}}
	run := func(template string) *imagev1.Run {
		return &imagev1.Run{
			Configs: []*imagev1.Config{{Template: template, Path: "./a/b"}, {Template: "conf", Path: "c", Mode: 0o400}},
		}
	}
	c, err := configdir.Render(image, run("conf"), data)
	if err != nil || len(c.Files) != 2 || c.Files[0].Path != "a/b" || string(c.Files[0].Data) != "level=info\n" ||
		c.Files[0].Mode != 0o640 ||
		c.Files[1].Mode != 0o400 {
		t.Errorf("rendered %+v, %v", c, err)
	}
	for _, template := range []string{"none", "link", "../" + filepath.Base(image) + "/conf", ".", "large"} {
		if c, err := configdir.Render(image, run(template), data); err == nil {
			t.Errorf("%s is rendered to %q", template, c.Files[0].Data)
		}
	}
	if _, err := configdir.Render(image, run("conf"), render.Data{}); err == nil ||
		!strings.Contains(err.Error(), "level") {
		t.Errorf("a name that is not there: %v", err)
	}
	if _, err := configdir.Render(
		image, &imagev1.Run{Configs: run("conf").Configs, Sandbox: &imagev1.Sandbox{User: "no-such-user"}}, data,
	); err == nil {
		t.Error("a user that is not there is no error")
	}
	if c, err := configdir.Render(image, &imagev1.Run{}, data); err != nil || c.Digest() != "" {
		t.Errorf("no configuration is %v, %v", c, err)
	}
}
