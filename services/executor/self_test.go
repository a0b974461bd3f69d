package executor_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// maxStarts is how often a program is started that does not stay up.
const maxStarts = 3

const (
	succeeded = taskv1.State_STATE_SUCCEEDED
	undone    = taskv1.State_STATE_UNDONE
)

// replace does one change of the executor and looks at everything when it has ended:
// which version runs, and that neither the agent nor, after a replacement in place, the
// executor's process is another one.
func (b *box) replace(task string, state taskv1.State, code, version, runs string) {
	b.t.Helper()
	end, err := b.waitEnd(task)
	if err != nil {
		b.t.Fatal(err)
	}
	if o := end.GetOutcome(); end.GetState() != state || o.GetCode() != code {
		b.t.Errorf("ended as %s with %q at %s: %s\n%s; want %s with %q", end.GetState(), o.GetCode(), o.GetFailedStep(),
			o.GetReason(), o.GetLogTail(), state, code)
	}
	polltest.Eventually(b.t, "version "+runs+" beats and says so",
		func() bool { return b.beat() == runs && b.status().Version == runs })
	polltest.Eventually(b.t, "it is the only one", b.alone)
	if version != "" {
		polltest.Eventually(b.t, "the agent is found", func() bool { return b.agent("executor").Version == version })
	}
}

// found waits until the executor says how its own program is.
func (b *box) found(health string) {
	b.t.Helper()
	polltest.Eventually(b.t, "the executor's program is found "+health,
		func() bool { return b.agent("executor").Health == health })
}

// untouched looks whether the agent's process is the one that it always was.
func (b *box) untouched(pid int) {
	b.t.Helper()
	polltest.Eventually(b.t, fmt.Sprintf("the agent's process is %d", pid), func() bool {
		a := b.agent("sleeper")
		return a.Health == "good" && int(a.Pid) == pid
	})
}

func TestANewExecutorTakesOverWhileAgentsRunOn(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	agent, executor := b.install(), b.unit.pid()
	b.replace(b.want(b.brings(trait{Version: "2.0.0"})), succeeded, "", "2.0.0", "2.0.0")
	b.found("good")
	if a := b.agent("executor"); int(a.Pid) != b.unit.pid() {
		t.Errorf("found %+v", a)
	}
	b.replace(b.want(b.brings(trait{Version: "3.0.0"})), succeeded, "", "3.0.0", "3.0.0")
	for _, f := range b.everFound("executor") {
		if f.GetHealth() != instancev1.Health_HEALTH_GOOD {
			t.Errorf("it was reported as %v", f)
		}
	}
	if b.unit.pid() != executor {
		t.Errorf("the process is %d, was %d", b.unit.pid(), executor)
	}
	b.stop()
	b.start() // the bootstrap program, which becomes the installed one
	polltest.Eventually(t, "the installed version runs",
		func() bool { return b.status().Version == "3.0.0" && b.agent("sleeper").Health == "good" })
	task := b.unwant("executor")
	b.replace(task, succeeded, "", "", "1.0.0")
	b.untouched(agent)
	b.stop()
	for _, bad := range b.settled(task, succeeded, "") {
		t.Error(bad)
	}
}

func TestADamagedProgramOfTheExecutorIsRepairedByATaskForTheSameVersion(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	agent := b.install()
	m := b.brings(trait{Version: "2.0.0"})
	b.replace(b.want(m), succeeded, "", "2.0.0", "2.0.0")
	b.found("good")
	dir := b.root.Image(m.GetBlob().GetDigest())
	file := filepath.Join(dir, "bin", "trait.json")
	was, err := os.ReadFile(file)
	if err == nil {
		err = errors.Join(os.Chmod(file, 0o644), os.WriteFile(file, append(was, '\n'), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	b.found("bad")
	b.replace(b.want(m), succeeded, "", "2.0.0", "2.0.0")
	b.found("good")
	b.untouched(agent)
	if now, err := os.ReadFile(file); string(now) != string(was) {
		t.Errorf("the file holds %q, %v; want %q", now, err, was)
	}
	polltest.Eventually(t, "the damaged copy is gone", func() bool {
		left, _ := filepath.Glob(dir + "?*")
		return len(left) == 0
	})
}

func TestAnAgentThatEndsAfterTheReplacementIsBuriedAndStartedAgain(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	agent := b.install()
	b.replace(b.want(b.brings(trait{Version: "2.0.0"})), succeeded, "", "2.0.0", "2.0.0")
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// It was started by this process when that was another program, and is still its child.
	polltest.Eventually(t, "it is buried", func() bool { return errors.Is(syscall.Kill(agent, 0), syscall.ESRCH) })
	polltest.Eventually(t, "another process runs", func() bool {
		a := b.agent("sleeper")
		return a.Health == "good" && a.Pid != 0 && int(a.Pid) != agent
	})
}

// trying starts a change and returns when the new executor is on trial.
func (b *box) trying(tr trait) (task string) {
	b.t.Helper()
	task = b.want(b.brings(tr))
	polltest.Eventually(b.t, "the new executor is on trial", func() bool {
		return slices.ContainsFunc(b.executors(), func(p process) bool { return p.trial })
	})
	return task
}

func TestABusThatGoesAwayDuringTheTrialIsNotHeldAgainstTheNewOne(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	agent := b.install()
	task := b.trying(trait{Version: "2.0.0", Hang: "trial"})
	b.way.set(true)
	polltest.Eventually(t, "the trial is over", func() bool {
		return !slices.ContainsFunc(b.executors(), func(p process) bool { return p.trial })
	})
	polltest.Eventually(t, "the old one goes on without the bus",
		func() bool { return b.status().Note == "" && !b.status().Connected })
	b.untouched(agent)
	b.way.set(false)
	b.replace(task, undone, "NEEDS_BUS", "", "1.0.0")
}

func TestANewExecutorThatHangsEndsWithTheOldOne(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	agent := b.install()
	task := b.trying(trait{Version: "2.0.0", Hang: "trial"})
	if err := syscall.Kill(b.unit.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.replace(task, undone, "INTERRUPTED", "", "1.0.0")
	b.untouched(agent)
}

func TestATrialThatIsStoppedFromOutsideIsDoneAgain(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	agent := b.install()
	task := b.trying(trait{Version: "2.0.0"})
	b.stop()
	if left := b.executors(); len(left) != 0 {
		t.Errorf("executors %v are left", left)
	}
	b.start()
	b.replace(task, succeeded, "", "2.0.0", "2.0.0")
	b.untouched(agent)
}

func TestThereIsOneProgramOfTheExecutor(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.replace(b.want(b.brings(trait{Version: "2.0.0"})), succeeded, "", "2.0.0", "2.0.0")
	other := proto.Clone(b.brings(trait{Version: "3.0.0"})).(*imagev1.Manifest)
	other.Agent = "other-executor"
	other.Id = manifest.ID(other)
	b.replace(b.want(other), undone, "OTHER_SELF", "2.0.0", "2.0.0")
	files := proto.Clone(b.brings(trait{Version: "3.0.0"})).(*imagev1.Manifest)
	files.Kind, files.Run.Command = agentv1.Kind_KIND_FILES, ""
	b.replace(b.want(files), undone, "INVALID_IMAGE", "2.0.0", "2.0.0")

	// Others that are started by mistake end, and do not count against the program.
	var others sync.WaitGroup
	for range maxStarts {
		others.Go(func() {
			out, err := exec.Command(b.bootstrap, "run", "--root", string(b.root), "--bus", b.url).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "another executor runs here") {
				t.Errorf("another one ended with %v: %s", err, out)
			}
		})
	}
	others.Wait()
	b.stop()
	b.start()
	polltest.Eventually(t, "the installed version runs",
		func() bool { return b.status().Version == "2.0.0" && b.status().Pid == b.unit.pid() })
}

func TestABrokenExecutorIsUndone(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	agent := b.install()
	b.replace(b.want(b.brings(trait{Version: "2.0.0"})), succeeded, "", "2.0.0", "2.0.0")
	for _, c := range []struct {
		trait
		code, says string
	}{
		{
			trait{Version: "3.0.0", Crash: "rehearse"}, "REHEARSAL_FAILED",
			"it printed last: executor: version 3.0.0 cannot go on",
		},
		{trait{Version: "3.1.0", NoBus: "rehearse"}, "REHEARSAL_FAILED", "it printed last: "},
		{trait{Version: "3.2.0", NoRead: true}, "REHEARSAL_FAILED", "it printed last: "},
		{trait{Version: "4.0.0", Crash: "trial"}, "EXITED", "it printed last: executor: version 4.0.0 cannot go on"},
		{trait{Version: "4.1.0", Hang: "trial"}, "NOT_READY", "did not report within"},
		{trait{Version: "4.2.0", NoBus: "trial"}, "NOT_READY", "did not report within"},
	} {
		t.Run(c.Version+" "+c.code, func(t *testing.T) {
			b.t = t
			task := b.want(b.brings(c.trait))
			b.replace(task, undone, c.code, "2.0.0", "2.0.0")
			if end, err := b.waitEnd(task); err != nil || !strings.Contains(end.GetOutcome().GetReason(), c.says) {
				t.Errorf("the reason is %q (%v), without %q", end.GetOutcome().GetReason(), err, c.says)
			}
		})
	}
	b.t = t
	b.untouched(agent)
	if n := b.unit.started(); n != 1 {
		t.Errorf("the executor was started %d times", n)
	}
	task := b.want(b.brings(trait{Version: "5.0.0", Crash: "run"}))
	b.replace(task, undone, "NOT_STARTED", "2.0.0", "2.0.0")
	b.untouched(agent)
	b.stop()
	for _, bad := range b.settled(task, undone, "2.0.0") {
		t.Error(bad)
	}
}

func TestAnExecutorThatKeepsEndingLaterDoesNotTakeTheServerAway(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	agent := b.install()
	end, err := b.waitEnd(b.want(b.brings(trait{Version: "2.0.0", Late: true})))
	if err != nil || end.GetState() != succeeded {
		t.Fatal(end, err)
	}
	polltest.Eventually(t, "the program that was started first does the work",
		func() bool { return b.status().Version == "1.0.0" })
	if s := b.status(); !strings.Contains(s.Note, "3 times") {
		t.Errorf("status %+v", s)
	}
	b.found("bad")
	b.untouched(agent)
	b.replace(b.want(b.brings(trait{Version: "3.0.0"})), succeeded, "", "3.0.0", "3.0.0")
	if s := b.status(); s.Note != "" {
		t.Errorf("status %+v", s)
	}
	b.found("good")
	b.untouched(agent)
}

// The version before is a better stand-in than the program that was installed years ago.
func TestInPlaceOfAVersionThatKeepsEndingTheOneBeforeRuns(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	agent := b.install()
	b.replace(b.want(b.brings(trait{Version: "2.0.0"})), succeeded, "", "2.0.0", "2.0.0")
	end, err := b.waitEnd(b.want(b.brings(trait{Version: "3.0.0", Late: true})))
	if err != nil || end.GetState() != succeeded {
		t.Fatal(end, err)
	}
	polltest.Eventually(t, "the version before does the work", func() bool { return b.status().Version == "2.0.0" })
	if s := b.status(); !strings.Contains(s.Note, "3 times") {
		t.Errorf("status %+v", s)
	}
	b.found("bad")
	b.untouched(agent)
	// It is no version that was asked for, and counts like one: when it does not stay up
	// either, the program that was started first is left.
	for range maxStarts - 1 {
		was := b.unit.pid()
		if err := syscall.Kill(was, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		polltest.Eventually(t, "the version before does the work again",
			func() bool { return b.status().Version == "2.0.0" && b.status().Pid != was })
	}
	if err := syscall.Kill(b.unit.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "the program that was started first does the work",
		func() bool { return b.status().Version == "1.0.0" })
	b.replace(b.want(b.brings(trait{Version: "4.0.0"})), succeeded, "", "4.0.0", "4.0.0")
	b.found("good")
	b.untouched(agent)
}
