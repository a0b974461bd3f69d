package imagedir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

func staged(t *testing.T) (layout.Root, *imagedir.Images, imagetest.Image) {
	t.Helper()
	root := layout.Root(t.TempDir())
	s := imagedir.New(root)
	i := imagetest.New(t, "cn-agent", "1.0.0", &imagev1.Run{}, imagetest.Regular("bin/agent", 0o755, []byte("program")))
	if err := i.Store(root); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(context.Background(), i.Manifest.Blob); err != nil {
		t.Fatal(err)
	}
	if err := s.Stage(context.Background(), i.Manifest, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = imagedir.RemoveTree(root.Images()) })
	return root, s, i
}

func TestAStagedImageIsSealedAndWhole(t *testing.T) {
	_, s, i := staged(t)
	m, err := s.Whole(i.Manifest.Blob.Digest)
	if err != nil || m.ImageID != i.Manifest.Id || !s.Prepared(i.Manifest.Blob.Digest) {
		t.Errorf("mark %v, %v", m, err)
	}
	if err := s.Stage(context.Background(), i.Manifest, nil); err != nil {
		t.Errorf("staging again: %v", err)
	}
}

func TestAChangedOrLostFileIsDamageAndIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(file string) error
		want string
	}{
		"changed": {
			func(file string) error { return os.WriteFile(file, []byte("another"), 0o555) },
			"bin/agent has another content",
		},
		"lost": {os.Remove, "bin/agent is missing"},
		"mode": {
			func(file string) error { return os.Chmod(file, 0o444) }, "bin/agent has mode 0444 instead of 0555",
		},
		"replaced by a link": {
			func(file string) error { return errors.Join(os.Remove(file), os.Symlink("/bin/true", file)) },
			"bin/agent is of another type",
		},
		"renamed": {
			func(file string) error { return os.Rename(file, file+".old") }, "bin/agent is missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, s, i := staged(t)
			file := filepath.Join(root.Image(i.Manifest.Blob.Digest), "bin/agent")
			err := errors.Join(os.Chmod(filepath.Dir(file), 0o755), c.harm(file), os.Chmod(filepath.Dir(file), 0o555))
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Whole(i.Manifest.Blob.Digest)
			if !fault.Is(err, fault.Conflict) || !strings.HasSuffix(err.Error(), "changed: "+c.want) {
				t.Errorf("got %v, want a conflict that ends with %q", err, c.want)
			}
		})
	}
}

func TestWhatAnAgentAddsToItsImageIsNamedAndIsNoDamage(t *testing.T) {
	root, s, i := staged(t)
	digest := i.Manifest.Blob.Digest
	bin := filepath.Join(root.Image(digest), "bin")
	err := errors.Join(os.Chmod(bin, 0o755), os.Mkdir(filepath.Join(bin, "cache"), 0o755),
		os.WriteFile(filepath.Join(bin, "cache", "one"), nil, 0o600),
		os.WriteFile(filepath.Join(bin, "pid"), nil, 0o600),
		os.WriteFile(filepath.Join(bin, "a\nb"), nil, 0o600), os.Chmod(bin, 0o555))
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Whole(digest)
	want := `"bin/a\nb", bin/cache, bin/pid`
	if err != nil || m.Added != want || s.Damaged(digest) || !s.Prepared(digest) {
		t.Errorf("added %q, %v; want %q and no damage", m.Added, err, want)
	}
	if changed, err := s.CheckContent(t.Context(), digest, nil); changed || err != nil {
		t.Errorf("its content changed: %v, %v", changed, err)
	}
}

func TestChunksThatAreNotTheWholeAreRefused(t *testing.T) {
	root := layout.Root(t.TempDir())
	i := imagetest.New(t, "cn-agent", "1.0.0", &imagev1.Run{}, imagetest.Regular("x", 0o644, []byte("x")))
	i.Chunks[0] = append([]byte{}, i.Chunks[0]...)
	i.Chunks[0][3] ^= 1
	if err := i.Store(root); err != nil {
		t.Fatal(err)
	}
	err := imagedir.New(root).Verify(context.Background(), i.Manifest.Blob)
	if fault.RefusalOf(err).GetCode() != "WRONG_DIGEST" {
		t.Errorf("got %v", err)
	}
}

func TestARefusedImageLeavesNothing(t *testing.T) {
	root := layout.Root(t.TempDir())
	i := imagetest.New(t, "cn-agent", "1.0.0", &imagev1.Run{}, imagetest.Regular("/etc/x", 0o644, []byte("x")))
	if err := i.Store(root); err != nil {
		t.Fatal(err)
	}
	if err := imagedir.New(root).Stage(context.Background(), i.Manifest, nil); err == nil {
		t.Fatal("it was staged")
	}
	if left, _ := os.ReadDir(root.Images()); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestStagingLeavesNoFileOpen(t *testing.T) {
	root, _, i := staged(t)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for _, fd := range fds {
		if path, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(path,
			root.CacheOf(i.Manifest.Blob.Digest)) {
			t.Errorf("%s is open", path)
		}
	}
}

func TestTheChunksOfAStagedImageAreDroppedAndOfAnotherKept(t *testing.T) {
	root, s, i := staged(t)
	other := imagetest.New(t, "cn-agent", "2.0.0", &imagev1.Run{},
		imagetest.Regular("bin/agent", 0o755, []byte("other")))
	for _, i := range []imagetest.Image{i, other} {
		if err := errors.Join(i.Store(root), s.DropCache(i.Manifest.Blob.Digest)); err != nil {
			t.Fatal(err)
		}
	}
	caches, _ := os.ReadDir(root.Cache())
	if len(caches) != 1 || root.CacheOf(other.Manifest.Blob.Digest) != filepath.Join(root.Cache(), caches[0].Name()) {
		t.Errorf("caches %v, want only that of the image which is not staged", caches)
	}
}

func TestANeededImageIsNotRemoved(t *testing.T) {
	_, s, i := staged(t)
	digest := i.Manifest.Blob.Digest
	if removed, err := s.Remove(digest, func() (bool, error) { return true, nil }); removed || err != nil ||
		!s.Prepared(digest) {
		t.Errorf("removed %v, %v", removed, err)
	}
	if removed, err := s.Remove(digest, func() (bool, error) { return false, nil }); !removed || err != nil ||
		s.Prepared(digest) {
		t.Errorf("not removed: %v, %v", removed, err)
	}
}

// An agent's state is its user's. A process of that user may put a link in the place of a
// directory at any instant, and what the link leads to must be as it was.
func TestARemovalTouchesNothingOutsideWhateverIsSwappedMeanwhile(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "within")
	if err := os.MkdirAll(secret, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		dir := filepath.Join(t.TempDir(), "state")
		link := filepath.Join(filepath.Dir(dir), "link")
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
		for n := range 40 {
			if err := os.MkdirAll(filepath.Join(dir, "a"+strconv.Itoa(n), "b"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		stop := make(chan struct{})
		var swapping sync.WaitGroup
		swapping.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				_ = unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, filepath.Join(dir, "a"+strconv.Itoa(n%40)),
					unix.RENAME_EXCHANGE)
			}
		})
		_ = imagedir.RemoveTree(dir) // it may lose, and say so
		close(stop)
		swapping.Wait()
		for _, path := range []string{outside, secret} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
				t.Fatalf("%s: %v, %v", path, info, err)
			}
		}
	}
}

func TestARemovalDeletesNothingThatIsMounted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	at := filepath.Join(dir, "disk")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("garrison", at, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	other := filepath.Join(at, "foreign")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := imagedir.RemoveTree(dir)
	if _, gone := os.Stat(other); gone != nil || fault.RefusalOf(err).GetCode() != code.Mounted {
		t.Errorf("%v; the file: %v", err, gone)
	}
}
