package executor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/powercut"
)

// diskSize is enough for three executors and the room that a change reserves.
const diskSize = 256 << 20

// newPoweredCareer is a career on a disk whose power can be cut. The program that is
// started first is elsewhere, as a package has it.
func newPoweredCareer(t *testing.T) *career {
	d := powercut.New(t, diskSize)
	c := &career{box: newBoxIn(t, filepath.Join(d.Mount, "root")), disk: d}
	d.Before = c.endAll
	c.begins()
	return c
}

// endAll ends every process of the server at once, as a power cut does. None of them can
// have written anything meanwhile.
func (c *career) endAll() {
	c.halt()
	for {
		left := c.sleepers()
		for _, p := range c.executors() {
			left = append(left, p.pid)
		}
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// halt kills the executor that is kept up, and keeps it up no more.
func (c *career) halt() {
	u := c.unit
	if u == nil {
		return
	}
	c.unit = nil
	u.mu.Lock()
	close(u.stopping)
	_ = u.cmd.Process.Kill()
	u.mu.Unlock()
	<-u.stopped
}

// sleepers returns the processes of the agent, also unmanaged ones.
func (c *career) sleepers() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		// a process that ended and was not waited for has none
		exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if err == nil && exe != "" &&
			slices.Contains(strings.Split(string(env), "\x00"), "GARRISON_STATE="+c.root.State("sleeper")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// lose cuts the power at a point or an instant of the change that was begun, and perhaps once
// more in the start after that. Then it is there again, and a service manager starts the executor.
func (c *career) lose(k interruption) (step string, bad []string) {
	switch {
	case k.point == "":
		time.Sleep(k.after)
		bad = c.cut(powercut.Shut(c.disk.Mount))
	case c.passes(k.point):
		bad = c.cut() // the process there cut the power
	default:
		bad = c.cut(errNotPassed, powercut.Shut(c.disk.Mount))
	}
	step = stepOf(c.passed())
	if k.again {
		c.start()
		time.Sleep(soon())
		bad = append(bad, c.cut(powercut.Shut(c.disk.Mount))...)
	}
	c.start()
	return step, bad
}

// cut ends everything on a disk that was shut, and looks at what is left of it.
func (c *career) cut(errs ...error) (bad []string) {
	for _, err := range append(errs, c.disk.Restore()) {
		if err != nil {
			bad = append(bad, err.Error())
		}
	}
	return append(bad, c.startable()...)
}

// startable looks, before anything is started, whether the journal can be read, and whether what the
// link to the program leads to is there, whole, and in the inventory or in the
// change that is open, which has it proven.
func (c *career) startable() (bad []string) {
	complain := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	target, err := os.Readlink(c.root.Program())
	if err != nil && !os.IsNotExist(err) {
		complain("the link to the program: %v", err)
	}
	known := map[string]bool{"": true}
	err = journal.Look(c.root.Journal(), func(tx *journal.Tx) error {
		changes, err := tx.Changes()
		if err != nil {
			return err
		}
		for _, open := range changes {
			if open.TrialPassed {
				known[c.programLink(open.To)] = true
			}
			if open.From != nil {
				known[c.programLink(open.From.Image)] = true
			}
		}
		i, err := tx.Instance("executor")
		if i != nil {
			known[c.programLink(i.Image)] = true
		}
		return err
	})
	if err != nil {
		complain("the journal after the cut: %v", err)
	}
	if !known[target] {
		complain("after the cut the link leads to %s, which the journal does not know: %v", target, known)
	}
	program, _ := selfProgram()
	if got, err := os.ReadFile(filepath.Join(c.root.Home(), target)); target != "" &&
		(err != nil || string(got) != string(program)) {
		complain("after the cut the link leads to %s, which is not whole: %d bytes (%v)", target, len(got), err)
	}
	return bad
}

func (c *career) programLink(m change.Manifest) string {
	if m.Manifest == nil {
		return ""
	}
	return c.root.ProgramLink(filepath.Join(c.root.Image(m.Digest()), "bin/executor"))
}

func TestAnExecutorThatReplacesItselfLosesPowerAtAnyInstantAndIsOneWholeVersion(t *testing.T) {
	t.Parallel()
	if why := powercut.Unable(t); why != "" {
		fmt.Printf("\npower cut, itself: SKIPPED: %s\n", why)
		t.Skip(why)
	}
	interrupt(t, "power cut, itself", cutsVariable, newPoweredCareer)
}
