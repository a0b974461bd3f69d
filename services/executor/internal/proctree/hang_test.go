package proctree_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/powercut"
)

// plays is the variable with the role of a process of this test program; empty for the tests.
const plays = "KIN_TEST_PLAYS"

func TestMain(m *testing.M) {
	role, argument, _ := strings.Cut(os.Getenv(plays), " ")
	var err error
	switch role {
	case "":
		os.Exit(m.Run())
	case "hangs":
		err = hold(argument)
	case "ends": // a token, while pidfd_open fails with an error number
		number, token, _ := strings.Cut(argument, " ")
		if err = forbidPidfd(number); err == nil {
			err = proctree.End(token, 5*time.Second)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hold blocks all readers of this process's environment, as it happens when a disk does not answer: one thread writes
// to a page of a file on it, and another one unmaps that page and holds the lock of the process's memory meanwhile.
func hold(path string) error {
	size := os.Getpagesize()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	page, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	at := uintptr(unsafe.Pointer(&page[0]))
	writer := make(chan int)
	go func() {
		runtime.LockOSThread()
		writer <- unix.Gettid()
		page[0] = 1
	}()
	stat := fmt.Sprintf("/proc/self/task/%d/stat", <-writer)
	for state := ""; !strings.Contains(state, ") D "); time.Sleep(time.Millisecond) { // until it waits for the disk
		data, err := os.ReadFile(stat)
		if err != nil {
			return err
		}
		state = string(data)
	}
	_, _, errno := unix.Syscall(unix.SYS_MUNMAP, at, uintptr(size), 0)
	return errno
}

// forbidPidfd makes pidfd_open fail with an error, as some containers do.
func forbidPidfd(number string) error {
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return err
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PIDFD_OPEN, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(n)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	if _, err := unix.PidfdOpen(os.Getpid(), 0); !errors.Is(err, unix.Errno(n)) {
		return fmt.Errorf("pidfd_open returns %w", err)
	}
	return nil
}

func play(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), plays+"="+role)
	return cmd
}

// hangs starts a process whose environment is unreadable while the disk is frozen.
func hangs(t *testing.T, disk *powercut.Disk) (pid int) {
	t.Helper()
	cmd := play(t, "hangs "+filepath.Join(disk.Mount, "file"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { disk.Thaw(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	polltest.Eventually(t, "it hangs", func() bool {
		read := make(chan struct{})
		go func() { _, _ = os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid)); close(read) }()
		select {
		case <-read:
			return false
		case <-time.After(time.Second):
			return true
		}
	})
	return cmd.Process.Pid
}

// reads returns how many processes are being read. One that hangs is for as long as it does.
func reads() int {
	stacks := make([]byte, 1<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("proctree.(*read).do("))
}

func TestAHangingProcessBlocksNoCaller(t *testing.T) {
	if why := powercut.Unable(t); why != "" {
		t.Skip(why)
	}
	disk := powercut.New(t, 16<<20)
	if err := os.WriteFile(filepath.Join(disk.Mount, "file"), make([]byte, os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	disk.Freeze(t)
	older := hangs(t, disk)
	time.Sleep(1100 * time.Millisecond) // more than the tolerance for clocks
	token := proctree.NewToken()
	if _, err := proctree.Of(token); err != nil {
		t.Error(err)
	}
	what := fmt.Sprintf("the older process, %d, is not read", older)
	polltest.Eventually(t, what, func() bool { return reads() == 0 })
	younger := hangs(t, disk)
	_, cmd := start(t, token, ": >up; exec sleep 600")
	for range 20 { // the time-out applies once
		found, err := proctree.Of(token)
		if err != nil || !slices.Contains(found, cmd.Process.Pid) {
			t.Fatalf("found %v beside %d, which hangs: %v", found, younger, err)
		}
	}
	polltest.Eventually(t, "the one that hangs was read once", func() bool { return reads() == 1 })
	if err := proctree.End(token, 5*time.Second); err != nil || !alive(t, younger) || alive(t, cmd.Process.Pid) {
		t.Errorf("%v", err)
	}
}

// Concurrent searches each find the process.
func TestConcurrentSearchesFindAProcess(t *testing.T) {
	t.Parallel()
	token := proctree.NewToken()
	_, cmd := start(t, token, ": >up; exec sleep 600")
	missed := make(chan bool, 8)
	for range cap(missed) {
		go func() {
			for range 50 {
				if found, err := proctree.Of(token); err != nil || !slices.Contains(found, cmd.Process.Pid) {
					missed <- true
					return
				}
			}
			missed <- false
		}()
	}
	for range cap(missed) {
		if <-missed {
			t.Error("a search missed the process")
		}
	}
}

func TestAProcessIsEndedWithoutPidfd(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		t.Run(errno.Error(), func(t *testing.T) {
			token := proctree.NewToken()
			_, cmd := start(t, token, ": >up; exec sleep 600")
			_, other := start(t, token+"0", ": >up; exec sleep 600")
			if out, err := play(t, fmt.Sprintf("ends %d %s", errno, token)).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if alive(t, cmd.Process.Pid) || !alive(t, other.Process.Pid) {
				t.Errorf("its process is alive: %v; another one: %v", alive(t, cmd.Process.Pid),
					alive(t, other.Process.Pid))
			}
		})
	}
}
