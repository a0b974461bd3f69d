package proctree

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

const variable = "GARRISON_START"

// NewToken returns a token that no other start has. It holds the time of its making: older processes cannot carry it.
func NewToken() string { return ident.New() + since + strconv.FormatUint(now(), 10) }

const (
	since = "@"
	spare = ticksPerSecond // for clocks that are not read in the same way
)

// earliest returns the start time before which no process carries a token; 0 when the token does not hold it.
func earliest(token string) uint64 {
	_, at, _ := strings.Cut(token, since)
	ticks, _ := strconv.ParseUint(at, 10, 64)
	return max(ticks, spare) - spare
}

// Mark returns the environment entry of a process that carries a token.
func Mark(token string) string { return variable + "=" + token }

// Of returns the processes that carry a token. Zombies are excluded.
func Of(token string) (pids []int, err error) {
	if token == "" {
		return nil, nil
	}
	all, err := All()
	return which(all, token), err
}

// The waits for processes in an exec: each is twice the one before, up to execWait. A process that sleeps is not in an
// exec, and is given up behind the longest wait. One that could run may wait for a processor in the middle of its exec.
const (
	execWait   = 8 * time.Millisecond
	execWithin = time.Second
)

// which returns the processes that carry a token. A process shows no environment, or a part of it, during an exec. All
// such processes are read again together: a machine may be full of processes that never show one.
func which(pids []int, token string) (those []int) {
	began := time.Now()
	for wait := pollOften; ; wait = min(2*wait, execWait) {
		var unsure []int
		for _, pid := range pids {
			is, sure := carries(pid, token)
			switch {
			case is:
				those = append(those, pid)
			case !sure && (time.Since(began) < 2*execWait || runnable(pid)):
				unsure = append(unsure, pid)
			}
		}
		if len(unsure) == 0 || time.Since(began) > execWithin {
			return those
		}
		time.Sleep(wait)
		pids = unsure
	}
}

// Signal sends a signal to the processes that carry a token, except those that skip selects, and returns how many
// there are. skip may be nil.
func Signal(token string, s unix.Signal, skip func(pid int) bool) (n int, err error) {
	pids, err := Of(token)
	for _, pid := range pids {
		if skip != nil && skip(pid) {
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

// signal signals one process if it carries the token.
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
	// If the id was reused since it was opened, this fails: the held process has ended.
	return true, sent(pid, unix.PidfdSendSignal(fd, s, nil, 0))
}

// signalByID signals where the kernel cannot hold a process (before 5.3) or a container forbids it: the process that
// carries the token has the id before and after the check.
func signalByID(pid int, token string, s unix.Signal) (is bool, err error) {
	before, ok := StartTime(pid)
	if !ok || len(which([]int{pid}, token)) == 0 {
		return false, nil
	}
	if after, ok := StartTime(pid); !ok || after != before {
		return false, nil
	}
	return true, sent(pid, unix.Kill(pid, s))
}

func sent(pid int, err error) error {
	if err == nil || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("signal process %d: %w", pid, err)
}

// The polling for the end of processes: often at first.
const (
	pollOften  = time.Millisecond
	pollSeldom = 100 * time.Millisecond
)

// Await returns when no process carries a token, and no later than within.
func Await(token string, within time.Duration) {
	end := time.Now().Add(within)
	for wait := pollOften; time.Now().Before(end); wait = min(2*wait, pollSeldom) {
		if pids, err := Of(token); err != nil || len(pids) == 0 {
			return
		}
		time.Sleep(min(wait, time.Until(end)))
	}
}

// End kills the processes that carry a token, and those that they start meanwhile. It returns an error when some have
// not ended within the time.
func End(token string, within time.Duration) error {
	end := time.Now().Add(within)
	for wait := pollOften; ; wait = min(2*wait, pollSeldom) {
		n, err := Signal(token, unix.SIGKILL, nil)
		if n == 0 && err == nil {
			return nil
		}
		if time.Now().After(end) {
			late := fmt.Errorf("%d processes that it left did not end within %s after SIGKILL", n, within)
			return errors.Join(late, err)
		}
		time.Sleep(wait)
	}
}
