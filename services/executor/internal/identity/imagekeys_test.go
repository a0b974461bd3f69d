package identity

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

func TestTheKeysOfImagesAreToldOnceAndThenTheAdministrators(t *testing.T) {
	root := layout.Root(t.TempDir())
	if err := os.Mkdir(root.Home(), 0o700); err != nil {
		t.Fatal(err)
	}
	told, other := newKey(t), newKey(t)
	want := func(what string, want seal.Keys) {
		t.Helper()
		if have, err := ImageKeys(root); err != nil || !slices.Equal(have, want) || (have == nil) != (want == nil) {
			t.Fatalf("%s: %v, %v; want %v", what, have, err, want)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(root.ImageKeys(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := PinImageKeys(root, nil); err != nil {
		t.Fatal(err)
	}
	want("told none", nil)
	if err := PinImageKeys(root, []string{"nonsense"}); err == nil {
		t.Fatal("nonsense is a key")
	}
	want("told nonsense", nil)
	if err := PinImageKeys(root, []string{told}); err != nil {
		t.Fatal(err)
	}
	want("told one", seal.Keys{told})
	if err := PinImageKeys(root, []string{other}); err != nil {
		t.Fatal(err)
	}
	want("told another one later", seal.Keys{told})
	if !ImageKeysAsTold(root) {
		t.Error("what was told is said to be somebody's own")
	}
	write("# ours\n\n" + other + " of the build farm # since May\n" + told + "\n")
	want("changed by hand", seal.Keys{other, told})
	write("# nobody\n")
	want("no key", seal.Keys{})
	if err := os.Rename(root.ImageKeys(), root.ImageKeys()+".elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", root.ImageKeys()); err != nil {
		t.Fatal(err)
	}
	if keys, err := ImageKeys(root); err == nil {
		t.Errorf("a link that leads nowhere gives %v", keys)
	}
	if err := os.Remove(root.ImageKeys()); err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{"nonsense\n", told + "\nx\n", told[:40]} {
		write(damaged)
		if keys, err := ImageKeys(root); err == nil {
			t.Errorf("%q gives %v", damaged, keys)
		}
	}
}

func TestAnyChangeMakesTheKeysOfImagesSomebodysOwn(t *testing.T) {
	told, other := newKey(t), newKey(t)
	for name, change := range map[string]func(text string) string{
		"one more":            func(text string) string { return text + other + "\n" },
		"one less":            func(text string) string { return strings.Replace(text, told+"\n", "", 1) },
		"another":             func(text string) string { return strings.Replace(text, told, other, 1) },
		"a word beside one":   func(text string) string { return strings.Replace(text, told, told+" of the build farm", 1) },
		"a comment":           func(text string) string { return "# ours\n" + text },
		"a digest cut short":  func(text string) string { return text[:len(toldHead)+8] },
		"nothing left":        func(string) string { return "" },
		"without its comment": func(text string) string { return text[strings.Index(text, told):] },
	} {
		t.Run(name, func(t *testing.T) {
			root := layout.Root(t.TempDir())
			if err := os.Mkdir(root.Home(), 0o700); err != nil {
				t.Fatal(err)
			}
			if ImageKeysAsTold(root) {
				t.Error("a file that is not there is as it was told")
			}
			if err := PinImageKeys(root, []string{told}); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(root.ImageKeys())
			if err == nil {
				err = os.WriteFile(root.ImageKeys(), []byte(change(string(text))), 0o644)
			}
			if err != nil || ImageKeysAsTold(root) {
				t.Errorf("%v: it counts as told", err)
			}
		})
	}
}

func newKey(t *testing.T) string {
	t.Helper()
	public, _, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}
