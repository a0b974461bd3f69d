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
	sent, other := newKey(t), newKey(t)
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
	want("no keys sent", nil)
	if err := PinImageKeys(root, []string{"nonsense"}); err == nil {
		t.Fatal("nonsense is a key")
	}
	want("nonsense sent", nil)
	if err := PinImageKeys(root, []string{sent}); err != nil {
		t.Fatal(err)
	}
	want("one sent", seal.Keys{sent})
	if err := PinImageKeys(root, []string{other}); err != nil {
		t.Fatal(err)
	}
	want("another one sent later", seal.Keys{sent})
	if !ImageKeysAsJoined(root) {
		t.Error("the file of a join counts as changed")
	}
	write("# ours\n\n" + other + " of the build farm # since May\n" + sent + "\n")
	want("changed by hand", seal.Keys{other, sent})
	write("# none\n")
	want("no key", seal.Keys{})
	if err := os.Rename(root.ImageKeys(), root.ImageKeys()+".elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", root.ImageKeys()); err != nil {
		t.Fatal(err)
	}
	if keys, err := ImageKeys(root); err == nil {
		t.Errorf("a dangling link returns %v", keys)
	}
	if err := os.Remove(root.ImageKeys()); err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{"nonsense\n", sent + "\nx\n", sent[:40]} {
		write(damaged)
		if keys, err := ImageKeys(root); err == nil {
			t.Errorf("%q returns %v", damaged, keys)
		}
	}
}

func TestAnyChangeMakesTheImageKeysTheAdministrators(t *testing.T) {
	sent, other := newKey(t), newKey(t)
	for name, change := range map[string]func(text string) string{
		"one more": func(text string) string { return text + other + "\n" },
		"one less": func(text string) string { return strings.Replace(text, sent+"\n", "", 1) },
		"another":  func(text string) string { return strings.Replace(text, sent, other, 1) },
		"a word beside one": func(text string) string {
			return strings.Replace(text, sent, sent+" of the build farm", 1)
		},
		"a comment":           func(text string) string { return "# ours\n" + text },
		"a digest cut short":  func(text string) string { return text[:len(joinHead)+8] },
		"nothing left":        func(string) string { return "" },
		"without its comment": func(text string) string { return text[strings.Index(text, sent):] },
	} {
		t.Run(name, func(t *testing.T) {
			root := layout.Root(t.TempDir())
			if err := os.Mkdir(root.Home(), 0o700); err != nil {
				t.Fatal(err)
			}
			if ImageKeysAsJoined(root) {
				t.Error("a missing file counts as one of a join")
			}
			if err := PinImageKeys(root, []string{sent}); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(root.ImageKeys())
			if err == nil {
				err = os.WriteFile(root.ImageKeys(), []byte(change(string(text))), 0o644)
			}
			if err != nil || ImageKeysAsJoined(root) {
				t.Errorf("%v: it counts as unchanged", err)
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
