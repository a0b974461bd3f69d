// Package proctree finds and ends all processes that descend from one start, orphans included. A child that leaves
// its process group and its session still has the environment of the start, and in it a token that no other start
// has.
//
//	token := proctree.NewToken()
//	cmd.Env = append(cmd.Env, proctree.Mark(token))
//	…
//	err := proctree.End(token, time.Second)
//
// A subreaper (PR_SET_CHILD_SUBREAPER) would lose its orphans with the executor's own death, and could not tell which
// start an orphan comes from. A control group is not writable everywhere. The token survives both.
//
// Guarantees:
//
//  1. Only a process that carries the token is signalled. The token is checked again while a pidfd holds the process
//     (pidfd_open(2)), so a reused process id is never signalled. Where pidfd_open is not available, the token is
//     checked right before the signal, with the start time before and after.
//  2. End returns nil when no process that can be found carries the token, and those that it killed have ended: a
//     process that exits shows no environment, and may still hold a port.
//  3. No hanging process blocks a caller: a process that is older than the token is skipped, and any other has half a
//     second to show its environment.
//
// A process that was started without the environment, overwrote it, does not show it in time, or belongs to a user
// whose environment is not readable is not found. Below finds the processes that run from a directory, with or without
// a token, and ends none; EndBelow ends those that execute a file there.
package proctree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

const variable = "GARRISON_START"

// NewToken returns a token that no other start has. It holds the time of its making: older processes cannot carry it.
func NewToken() string { return ident.New() + since + strconv.FormatUint(now(), 10) }

// NewTokenIn returns a token that also says where the start is recorded, so that Recorded finds its processes when the
// record is lost.
func NewTokenIn(dir string) string { return NewToken() + in + placeOf(dir) }

// placeOf returns a short name of a directory, the same in every process.
func placeOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:8])
}

// Recorded returns the tokens that running processes carry of the starts that are, or were, recorded in a directory.
func Recorded(dir string) (tokens []string, err error) {
	all, err := All()
	for _, pid := range all {
		token := Variable(pid, variable)
		if strings.HasSuffix(token, in+placeOf(dir)) && !slices.Contains(tokens, token) {
			tokens = append(tokens, token)
		}
	}
	return tokens, err
}

const (
	since = "@"
	in    = "/"
	spare = ticksPerSecond // for clocks that are not read in the same way
)

// earliest returns the start time before which no process carries a token; 0 when the token does not hold it.
func earliest(token string) uint64 {
	_, at, _ := strings.Cut(token, since)
	at, _, _ = strings.Cut(at, in)
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

// End kills the processes that carry a token, and those that they start meanwhile, and returns when they have ended. It
// returns an error when some have not ended within the time.
func End(token string, within time.Duration) error {
	end := time.Now().Add(within)
	killed := map[int]uint64{} // the start times of processes that may still be about to end
	for wait := pollOften; ; wait = min(2*wait, pollSeldom) {
		pids, err := Of(token)
		for _, pid := range pids {
			start, runs := StartTime(pid)
			is, failed := signal(pid, token, unix.SIGKILL)
			if is && runs {
				killed[pid] = start
			}
			err = errors.Join(err, failed)
		}
		maps.DeleteFunc(killed, func(pid int, start uint64) bool {
			now, runs := StartTime(pid)
			return !runs || now != start
		})
		if len(pids)+len(killed) == 0 && err == nil {
			return nil
		}
		if time.Now().After(end) {
			late := fmt.Errorf("%d processes that it left did not end within %s after SIGKILL", len(killed), within)
			return errors.Join(late, err)
		}
		time.Sleep(wait)
	}
}

// Child is a process that another one started, directly or not.
type Child struct {
	Pid   int
	Start uint64 // in clock ticks since the boot
}

// Descendants returns the processes that descend from one now, the nearest first.
func Descendants(pid int) (out []Child) {
	all, _ := All() // without the list there are none that are known
	children := map[int][]Child{}
	for _, p := range all {
		if s, ok := Read(p); ok {
			children[s.Parent] = append(children[s.Parent], Child{p, s.Start})
		}
	}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		for _, c := range children[next[0]] {
			out, next = append(out, c), append(next, c.Pid)
		}
	}
	return out
}
