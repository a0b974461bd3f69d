package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/sample"
)

// A server with a pinned key refuses every image that the key did not sign, also one that the
// catalog and every service accepted.
func TestAServerTakesOnlyImagesThatItsKeysSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleet.Options{}) // its images are not signed
	key, foreign := filepath.Join(w.Dir, "release.key"), filepath.Join(w.Dir, "foreign.key")
	public := strings.TrimSpace(w.ok("image", "key", key))
	w.ok("image", "key", foreign)
	w.restartWithImageKey(public)

	s, err := w.AddServer(t.Context(), "alpha")
	if err != nil {
		t.Fatal(err)
	}
	pinned := filepath.Join(s.Root, "executor", "image-keys")
	if text, err := os.ReadFile(pinned); err != nil || !strings.Contains(string(text), public) {
		t.Fatalf("the join kept %q (%v)", text, err)
	}
	w.fails(1, "UNSIGNED_IMAGE", "install", "beacon@1.0.0", "--on", "all") // from before there were keys
	w.eventually("nothing is left", func() error { return nothingLeft(s) })

	three := w.build("3.0.0")
	w.fails(1, "UNSIGNED_IMAGE", "image", "import", three)
	w.ok("image", "sign", three, "--key", foreign)
	w.fails(1, "UNKNOWN_SIGNER", "image", "import", three)
	w.ok("image", "sign", three, "--key", key)
	w.ok("image", "verify", three, "--image-key", public)
	w.ok("image", "import", three, "--activate")
	w.ok("up", "beacon@3.0.0", "--on", "all", "--yes")
	w.servers = append(w.servers, s)
	w.converges("3.0.0")

	// With an unreadable file of keys no image is trusted, and what runs keeps running.
	four := w.build("4.0.0", "--key", key)
	w.ok("image", "import", four, "--activate")
	was, err := os.ReadFile(pinned)
	if err == nil {
		err = os.WriteFile(pinned, was[:len(was)-9], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.fails(1, "IMAGE_KEYS_UNREADABLE", "up", "beacon@4.0.0", "--on", "all", "--yes")
	w.answers("3.0.0")
	if err := os.WriteFile(pinned, was, 0o600); err != nil {
		t.Fatal(err)
	}
	w.ok("up", "beacon@4.0.0", "--on", "all", "--yes")
	w.converges("4.0.0")
	w.holds()
}

// restartWithImageKey restarts the control plane with a key of images.
func (w *world) restartWithImageKey(public string) {
	w.t.Helper()
	if err := w.Garrisond.Stop(); err != nil {
		w.t.Fatal(err)
	}
	w.Garrisond.AddArgs("--image-key", public)
	if err := w.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// build makes an image file of a version of beacon.
func (w *world) build(version string, flags ...string) (path string) {
	w.t.Helper()
	dir := filepath.Join(w.Dir, "signed-"+version)
	if err := (sample.Version{Version: version, Ready: "1m", Soak: "1s", Stop: "10s"}).Fill(bin, dir); err != nil {
		w.t.Fatal(err)
	}
	path = dir + ".gimg"
	w.ok(append([]string{"image", "build", dir, "-o", path}, flags...)...)
	return path
}
