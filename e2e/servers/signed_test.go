package servers_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// A server with a pinned key refuses every image that the key did not sign, also one that the
// catalog and every service accepted.
func TestAServerTakesOnlyImagesThatItsKeysSigned(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{})} // its images are not signed
	key, foreign := filepath.Join(w.Dir, "release.key"), filepath.Join(w.Dir, "foreign.key")
	public := strings.TrimSpace(w.OK("image", "key", key))
	w.OK("image", "key", foreign)
	w.restartWithImageKey(public)

	s, err := w.AddServer(t.Context(), "alpha")
	if err != nil {
		t.Fatal(err)
	}
	pinned := filepath.Join(s.Root, "executor", "image-keys")
	if text, err := os.ReadFile(pinned); err != nil || !strings.Contains(string(text), public) {
		t.Fatalf("the join kept %q (%v)", text, err)
	}
	w.Fails(1, "UNSIGNED_IMAGE", "install", "beacon@1.0.0", "--on", "all") // from before there were keys
	w.Eventually("nothing is left", func() error { return s.NothingLeft() })

	three := w.build("3.0.0")
	w.Fails(1, "UNSIGNED_IMAGE", "image", "import", three)
	w.OK("image", "sign", three, "--key", foreign)
	w.Fails(1, "UNKNOWN_SIGNER", "image", "import", three)
	w.OK("image", "sign", three, "--key", key)
	w.OK("image", "verify", three, "--key", public)
	w.OK("image", "import", three, "--activate")
	w.OK("up", "beacon@3.0.0", "--on", "all", "--yes")
	w.Servers = append(w.Servers, s)
	w.Converges("3.0.0")

	// With an unreadable file of keys no image is trusted, and what runs keeps running.
	four := w.build("4.0.0", "--key", key)
	w.OK("image", "import", four, "--activate")
	was, err := os.ReadFile(pinned)
	if err == nil {
		err = os.WriteFile(pinned, was[:len(was)-9], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Fails(1, "IMAGE_KEYS_UNREADABLE", "up", "beacon@4.0.0", "--on", "all", "--yes")
	w.Answers("3.0.0")
	scenario.Must(t, os.WriteFile(pinned, was, 0o600))
	w.OK("up", "beacon@4.0.0", "--on", "all", "--yes")
	w.Converges("4.0.0")
	w.Holds()
}

// A server that joined before there were keys takes any image, and images from before are signed by none. Both are
// named before a change fails.
func TestWhatIsFromBeforeTheKeysIsNamed(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "old")}
	w.OK("check")
	key := filepath.Join(w.Dir, "release.key")
	public := strings.TrimSpace(w.OK("image", "key", key))
	w.restartWithImageKey(public)
	_, err := w.AddServer(t.Context(), "new")
	scenario.Must(t, err)
	list := []string{"server", "list", "--trouble", "NO_IMAGE_KEYS", "-o", "name"}
	w.Eventually("the new server says that it has the key", func() error {
		if have := strings.Fields(w.OK(list...)); len(have) != 1 || have[0] != "old" {
			return fmt.Errorf("%v lack keys, want old", have)
		}
		return nil
	})
	for command, want := range map[string]string{
		"status": "2 active images are signed by no key of the catalog", "image list --untrusted": "1.0.0",
	} {
		text := strings.Join(strings.Fields(w.OK(strings.Fields(command)...)), " ")
		if !strings.Contains(text, want) {
			t.Errorf("%s has no %q: %s", command, want, text)
		}
	}
	text, code := w.CLI(t.Context(), "check")
	if !strings.Contains(text, "NO_IMAGE_KEYS") {
		t.Errorf("a check says %s (%v)", text, code)
	}
	pinned := filepath.Join(w.Servers[0].Root, "executor", "image-keys")
	scenario.Must(t, os.WriteFile(pinned, []byte(public+"\n"), 0o600))
	w.OK("server", "refresh", "--on", "old")
	w.Eventually("nothing differs", func() error {
		text, err := w.CLI(t.Context(), "check")
		if err != nil {
			return errors.New(text)
		}
		return nil
	})
}

// restartWithImageKey restarts the control plane with a key of images.
func (w *world) restartWithImageKey(public string) {
	w.T.Helper()
	scenario.Must(w.T, w.Garrisond.Stop())
	w.Garrisond.AddArgs("--image-key", public)
	scenario.Must(w.T, w.Start(w.T.Context()))
}

// build makes an image file of a version of beacon.
func (w *world) build(version string, flags ...string) (path string) {
	w.T.Helper()
	dir := filepath.Join(w.Dir, "signed-"+version)
	v := sample.Version{Version: version, Ready: "1m", Soak: "1s", Stop: "10s"}
	scenario.Must(w.T, v.Fill(scenario.Bin, dir))
	path = dir + ".gimg"
	w.OK(append([]string{"image", "build", dir, "--out", path}, flags...)...)
	return path
}
