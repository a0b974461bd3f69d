package kin

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

const variable = "GARRISON_START"

// NewToken gives a token that no other start has. It says from when on there may be
// processes that carry it, so that older ones need not be looked at.
func NewToken() string { return ident.New() + since + strconv.FormatUint(now(), 10) }

const (
	since = "@"
	spare = ticksPerSecond // for clocks that are not read in the same way
)

// earliest gives the start time before which no process carries a token; 0 when it does not say.
func earliest(token string) uint64 {
	_, at, _ := strings.Cut(token, since)
	ticks, _ := strconv.ParseUint(at, 10, 64)
	return max(ticks, spare) - spare
}

// Mark is what the environment of a process says that carries a token.
func Mark(token string) string { return variable + "=" + token }

// Of gives the processes that carry a token. One that waits to be buried does not any more.
func Of(token string) (pids []int, err error) {
	if token == "" {
		return nil, nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return which(all, token), nil
}

// becomesWithin bounds the waits for processes that become other programs: each is twice
// the one before, and this is the longest.
const becomesWithin = 8 * time.Millisecond

// which gives those of the processes that carry a token. One that becomes another program
// shows no environment for a moment, or a part of it. All such are looked at again together:
// a machine may be full of processes that never show one.
func which(pids []int, token string) (those []int) {
	for wait := lookOften; ; wait *= 2 {
		var unsure []int
		for _, pid := range pids {
			is, sure := carries(pid, token)
			switch {
			case is:
				those = append(those, pid)
			case !sure:
				unsure = append(unsure, pid)
			}
		}
		if len(unsure) == 0 || wait > becomesWithin {
			return those
		}
		time.Sleep(wait)
		pids = unsure
	}
}

// carries says whether a process carries a token, as far as it can be seen now.
func carries(pid int, token string) (is, sure bool) {
	if started, ok := StartTime(pid); !ok || started < earliest(token) {
		return false, true
	}
	env := environ(pid)
	want := []byte(Mark(token))
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(v, want) {
			return true, true
		}
	}
	return false, !torn(pid, env)
}

// Signal sends a signal to the processes that carry a token, but for some, and gives how
// many there are.
func Signal(token string, s unix.Signal, but func(pid int) bool) (n int, err error) {
	pids, err := Of(token)
	for _, pid := range pids {
		if but != nil && but(pid) {
			continue
		}
		is, failed := signal(pid, token, s)
		if is {
			n++
		}
		err = errors.Join(err, failed)
	}
	return n, err
}

// signal signals one process, if it is the one that carries the token.
func signal(pid int, token string, s unix.Signal) (is bool, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return signalByID(pid, token, s)
	}
	if err != nil {
		return true, fmt.Errorf("hold process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if len(which([]int{pid}, token)) == 0 {
		return false, nil
	}
	// Should the id have become another's since it was opened, this says that ours has ended.
	if err := unix.PidfdSendSignal(fd, s, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return true, fmt.Errorf("signal process %d: %w", pid, err)
	}
	return true, nil
}

// signalByID does it where the kernel cannot hold a process (before 5.3) or a container may
// not ask for that: the process that carries the token is the one that has the id.
func signalByID(pid int, token string, s unix.Signal) (is bool, err error) {
	before, ok := StartTime(pid)
	if !ok || len(which([]int{pid}, token)) == 0 {
		return false, nil
	}
	if after, ok := StartTime(pid); !ok || after != before {
		return false, nil
	}
	if err := unix.Kill(pid, s); err != nil && !errors.Is(err, unix.ESRCH) {
		return true, fmt.Errorf("signal process %d: %w", pid, err)
	}
	return true, nil
}

// How often it is looked whether processes have ended: often at first.
const (
	lookOften  = time.Millisecond
	lookSeldom = 100 * time.Millisecond
)

// Await returns when no process carries a token any more, and no later than within.
func Await(token string, within time.Duration) {
	end := time.Now().Add(within)
	for wait := lookOften; time.Now().Before(end); wait = min(2*wait, lookSeldom) {
		if pids, err := Of(token); err != nil || len(pids) == 0 {
			return
		}
		time.Sleep(min(wait, time.Until(end)))
	}
}

// End kills the processes that carry a token, and those that they start meanwhile. An error
// says that some did not end within the time.
func End(token string, within time.Duration) error {
	end := time.Now().Add(within)
	for wait := lookOften; ; wait = min(2*wait, lookSeldom) {
		n, err := Signal(token, unix.SIGKILL, nil)
		if n == 0 && err == nil {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("%d processes that it left did not end within %s after SIGKILL", n, within), err)
		}
		time.Sleep(wait)
	}
}
