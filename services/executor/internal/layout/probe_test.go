package layout_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// overlayRoot returns the root of an executor with the agent old in a lower layer of an overlay, and the agent new.
func overlayRoot(t *testing.T) (r layout.Root, lower string) {
	t.Helper()
	disk := t.TempDir()
	mount(t, disk, "tmpfs", "size=1m")
	for _, dir := range []string{"lower/agents/old/state", "lower/images", "lower/cache", "upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(disk, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r, lower = layout.Root(filepath.Join(disk, "root")), filepath.Join(disk, "lower")
	mount(t, string(r), "overlay", fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,redirect_dir=off", lower,
		filepath.Join(disk, "upper"), filepath.Join(disk, "work")))
	if err := os.MkdirAll(r.State("new"), 0o755); err != nil {
		t.Fatal(err)
	}
	return r, lower
}

func mount(t *testing.T, at, kind, options string) {
	t.Helper()
	if err := unix.Mount("garrison", at, kind, 0, options); err != nil {
		t.Skipf("a file system of kind %s cannot be mounted here: %v", kind, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}

// all returns everything below a root.
func all(t *testing.T, r layout.Root) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(string(r), func(path string, _ os.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return paths
}

func TestADirectoryThatCannotBeMovedIsFoundWithoutMovingIt(t *testing.T) {
	r, _ := overlayRoot(t)
	before := all(t, r)
	for agent, want := range map[string]string{"old": code.OtherFileSystem, "new": "", "none": ""} {
		if err := layout.Moves(r, agent); fault.RefusalOf(err).GetCode() != want || (err != nil) != (want != "") {
			t.Errorf("%s: %v, want %q", agent, err, want)
		}
		if err := layout.Takes(r, agent); err != nil {
			t.Errorf("%s: %v", agent, err)
		}
	}
	for _, left := range []string{"probe", "probe-web/" + layout.TemporaryPrefix + "probe"} { // by a crash
		path := filepath.Join(r.Agents(), layout.TemporaryPrefix+left)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := layout.SweepProbes(r); err != nil {
		t.Error(err)
	}
	if now := all(t, r); !slices.Equal(now, before) {
		t.Errorf("before %q, now %q", before, now)
	}
	// The same of the file system itself: what Moves refuses cannot be moved, and what it does not refuse can.
	for agent, can := range map[string]bool{"old": false, "new": true} {
		if err := os.Rename(r.Agent(agent), r.Gone(layout.GoneName(agent))); (err == nil) != can {
			t.Errorf("%s: %v", agent, err)
		}
	}
}

// The options of the overlay's mount stay as they were when the file system below it turns read-only.
func TestAnOverlayWhoseUpperLayerTurnedReadOnlyTakesNothing(t *testing.T) {
	r, lower := overlayRoot(t)
	if err := unix.Mount("", filepath.Dir(lower), "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skip(err)
	}
	if err := r.Usable(); err != nil {
		t.Skipf("its options show it here: %v", err)
	}
	for name, check := range map[string]func(layout.Root, string) error{"takes": layout.Takes, "moves": layout.Moves} {
		if err := check(r, "new"); fault.RefusalOf(err).GetCode() != code.RootReadOnly {
			t.Errorf("%s: %v, want %s", name, err, code.RootReadOnly)
		}
	}
}

func TestADirectoryThatIsImmutableIsNamed(t *testing.T) {
	const immutable = 0x10 // FS_IMMUTABLE_FL
	r, _ := overlayRoot(t)
	for _, dir := range []string{r.Agents(), r.Images(), r.Cache(), r.Agent("new")} {
		disk := layout.Root(t.TempDir())
		at := filepath.Join(string(disk), strings.TrimPrefix(dir, string(r)))
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := setFlags(at, immutable); err != nil {
			t.Skipf("no directory can be made immutable here: %v", err)
		}
		t.Cleanup(func() { _ = setFlags(at, 0) })
		refused := fault.RefusalOf(layout.Takes(disk, "new"))
		if refused.GetCode() != code.RootFaulty ||
			!strings.Contains(refused.GetMessage(), at+": operation not permitted") {
			t.Errorf("%s: %v", dir, refused)
		}
	}
}

func setFlags(dir string, flags int) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags), f.Close())
}

// Reserve makes room on a full disk, and the refusal is its own.
func TestAFullDiskIsNotRefusedByTheProbe(t *testing.T) {
	r := layout.Root(t.TempDir())
	mount(t, string(r), "tmpfs", "size=64k,nr_inodes=5")
	for _, dir := range []string{r.Agents(), r.Images(), r.Cache(), r.Agent("a")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Create(r.Path("more")); !layout.Full(err) {
		t.Fatalf("another file: %v", err)
	}
	if err := errors.Join(layout.Takes(r, "a"), layout.Moves(r, "a")); err != nil {
		t.Error(err)
	}
}
