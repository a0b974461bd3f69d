package servers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// restored restores a backup into the data directory; what was there until now moves to present.
func (w *world) restored(backup, present string, flags ...string) {
	w.T.Helper()
	w.garrisond(w.Garrisond.Stop)
	scenario.Must(w.T, os.Rename(w.DataDir(), present))
	w.garrisondDoes(append([]string{"restore", backup}, flags...)...)
	w.garrisond(func() error { return w.Start(w.T.Context()) })
}

// garrisondDoes runs a command of garrisond about the data directory.
func (w *world) garrisondDoes(args ...string) {
	w.T.Helper()
	cmd := exec.CommandContext(w.T.Context(), filepath.Join(scenario.Bin, "garrisond"), args...)
	cmd.Args = append(cmd.Args, "--data", w.DataDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		w.T.Fatalf("garrisond %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestARestoreKeepsOutWhomThePresentDirectoryRefuses(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{})}
	context := map[string]string{}
	for _, name := range []string{"ann", "bob"} {
		context[name] = filepath.Join(w.Dir, name+".json")
		w.OK("user", "create", name, "--role", "operator", "--file", context[name])
		w.OK("status", "--context", context[name])
	}
	backup := filepath.Join(w.Dir, "garrison.backup")
	w.garrisondDoes("backup", backup)
	w.OK("user", "revoke", "ann", "--yes")
	w.Fails(4, "LOGIN_REFUSED", "status", "--context", context["ann"])

	present := filepath.Join(w.Dir, "present")
	w.restored(backup, present, "--present", present)
	w.Fails(4, "LOGIN_REFUSED", "status", "--context", context["ann"])
	w.OK("status", "--context", context["bob"])

	// Without the present directory the restored state lets her in, and says that this may be.
	w.restored(backup, filepath.Join(w.Dir, "second"))
	w.OK("status", "--context", context["ann"])
	const lost = "may have lost revocations"
	if out := w.OK("status"); !strings.Contains(out, lost) {
		t.Errorf("status names no restore:\n%s", out)
	}
	w.OK("restore", "accept", "--revocations", "--yes")
	if out := w.OK("status"); strings.Contains(out, lost) {
		t.Errorf("status names the restore that was confirmed:\n%s", out)
	}
	w.OK("user", "revoke", "ann", "--yes")
	w.Fails(4, "LOGIN_REFUSED", "status", "--context", context["ann"])
}
