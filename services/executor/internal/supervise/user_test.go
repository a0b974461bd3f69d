package supervise

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/polltest"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// otherUID is the user without privileges of every distribution.
const otherUID = "65534"

// otherUser returns a user who is not root, and skips the test unless it may become that user.
func otherUser(t *testing.T) (name string, uid, gid int) {
	t.Helper()
	u, err := user.LookupId(otherUID)
	if err != nil || os.Geteuid() != 0 {
		t.Skip("only root may become another user")
	}
	uid, _ = strconv.Atoi(u.Uid)
	gid, _ = strconv.Atoi(u.Gid)
	return u.Username, uid, gid
}

func ownerOf(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

// Links in an agent's state must not make the next version's user the owner of the server's files.
func TestAStateChangesItsOwnerWithoutFilesLinkedIntoIt(t *testing.T) {
	name, uid, gid := otherUser(t)
	const before = 4242
	top := t.TempDir()
	dir, outside := filepath.Join(top, "state"), filepath.Join(top, "shadow")
	mine, twice, planted := filepath.Join(dir, "sub", "mine"), filepath.Join(dir,
		"twice"), filepath.Join(dir, "planted")
	soft, of := filepath.Join(dir, "soft"), filepath.Join(dir, "left by root")
	err := os.MkdirAll(filepath.Dir(mine), 0o750)
	for _, path := range []string{outside, mine, of} {
		if err == nil {
			err = os.WriteFile(path, nil, 0o600)
		}
	}
	for _, link := range []func() error{
		func() error { return os.Link(outside, planted) },
		func() error { return os.Link(mine, twice) },
		func() error { return os.Symlink(outside, soft) },
	} {
		if err == nil {
			err = link()
		}
	}
	for _, path := range []string{dir, filepath.Dir(mine), mine} {
		if err == nil {
			err = os.Lchown(path, before, gid)
		}
	}
	if err == nil {
		err = Own(dir, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		outside: 0, dir: uid, filepath.Dir(mine): uid, mine: uid, twice: uid, soft: uid, of: uid,
	} {
		if got := ownerOf(t, path); got != want {
			t.Errorf("%s belongs to %d, want %d", path, got, want)
		}
	}
}

// What root's agent linked here was root's own before, and stays so.
func TestAStateOfRootChangesItsOwnerWithoutFilesLinkedIntoIt(t *testing.T) {
	name, uid, _ := otherUser(t)
	dir, outside := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "shadow")
	planted, mine := filepath.Join(dir, "planted"), filepath.Join(dir, "mine")
	for _, err := range []error{
		os.Mkdir(dir, 0o750), os.WriteFile(outside, nil, 0o600), os.WriteFile(mine, nil, 0o600),
		os.Link(outside, planted), Own(dir, name),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if ownerOf(t, outside) != 0 || ownerOf(t, mine) != uid || ownerOf(t, dir) != uid {
		t.Errorf("owners: %d, %d, %d", ownerOf(t, outside), ownerOf(t, mine), ownerOf(t, dir))
	}
}

// A program that runs beside an agent as another user ends with the executor, too.
func TestAProgramBesideAnAgentDiesWithItsParent(t *testing.T) {
	s := shell(t, "")
	name, _, _ := otherUser(t)
	s.Sandbox = &imagev1.Sandbox{User: name}
	path, args, err := s.Beside("/bin/sh", []string{"-c", "echo up; exec sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = onAThreadThatEnds(func() error { // as with an executor that is killed
		if err := cmd.Start(); err != nil {
			return err
		}
		_, err := out.Read(make([]byte, 3))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	polltest.Eventually(t, "it is gone", func() bool { _, ok := proctree.StartTime(pid); return !ok })
}

// onAThreadThatEnds runs f on a thread of its own, and ends the thread. A goroutine that ends locked ends its thread,
// but the runtime only parks the main one.
func onAThreadThatEnds(f func() error) error {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			failed <- onAThreadThatEnds(f) // on another one, as this one is locked meanwhile
			return
		}
		failed <- f()
	}()
	return <-failed
}
