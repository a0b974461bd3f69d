package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

func TestAnAgentIsInstalledProvenAndReported(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	o := outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	f := r.good("cn-agent", "1.0.0")
	if f.GetPid() == 0 || f.GetInstanceId() != instanceOf("cn-agent") {
		t.Errorf("found %v", f)
	}
	var steps []taskv1.Step
	for _, s := range o.GetSteps() {
		steps = append(steps, s.GetStep())
	}
	want := []taskv1.Step{
		taskv1.Step_STEP_CHECK, taskv1.Step_STEP_RESERVE, taskv1.Step_STEP_FETCH, taskv1.Step_STEP_VERIFY,
		taskv1.Step_STEP_STAGE, taskv1.Step_STEP_DEFER,
		taskv1.Step_STEP_REHEARSE, taskv1.Step_STEP_SWITCH, taskv1.Step_STEP_PROVE, taskv1.Step_STEP_COMMIT,
		taskv1.Step_STEP_SWEEP,
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if caches, _ := os.ReadDir(b.root.Cache()); len(caches) != 0 {
		t.Errorf("the cache still has %v", caches)
	}
}

func TestAnUpgradeReplacesTheOldVersion(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*imagev1.Manifest){
		"restart": func(*imagev1.Manifest) {}, "overlap": overlap,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
			old := r.good("cn-agent", "1.0.0")
			outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready", how))), taskv1.State_STATE_SUCCEEDED)
			now := r.good("cn-agent", "2.0.0")
			if diff := cmp.Diff([]int{int(now.GetPid())}, b.pids()); diff != "" || now.GetPid() == old.GetPid() {
				t.Errorf("processes (-want +got):\n%s", diff)
			}
			if images, _ := os.ReadDir(b.root.Images()); len(images) != 1 {
				t.Errorf("%d images are left, want the new one only", len(images))
			}
		})
	}
}

func TestAVersionThatDoesNotProveItselfIsUndone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, what, code string
		how              func(*imagev1.Manifest)
		samePid          bool
	}{
		{"crash in a restart", "crash", "EXITED", func(*imagev1.Manifest) {}, false},
		{"crash in an overlap", "crash", "EXITED", overlap, true},
		{"never ready", "mute", "NOT_READY", func(m *imagev1.Manifest) { m.Run.Ready.TimeoutMs = 300 }, false},
		{"ends within the soak", "later", "EXITED", func(m *imagev1.Manifest) { m.Run.Ready.SoakMs = 2000 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
			old := r.good("cn-agent", "1.0.0")
			o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", c.what, c.how))), taskv1.State_STATE_UNDONE)
			if o.GetCode() != c.code || o.GetFailedStep() != taskv1.Step_STEP_PROVE ||
				!strings.Contains(o.GetLogTail(), "agent 2.0.0") ||
				strings.Contains(o.GetLogTail(), "agent 1.0.0") {
				t.Errorf("outcome %v, want %s in PROVE and the new one's output", o, c.code)
			}
			now := r.good("cn-agent", "1.0.0")
			if (now.GetPid() == old.GetPid()) != c.samePid {
				t.Errorf("pid was %d and is %d", old.GetPid(), now.GetPid())
			}
			if diff := cmp.Diff([]int{int(now.GetPid())}, b.pids()); diff != "" {
				t.Errorf("processes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFirstInstallThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "crash"))), taskv1.State_STATE_UNDONE)
	if left := b.left(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	kept := b.root.FailedOutput("cn-agent")
	if got := supervise.Tail(kept, 0, 4096); !strings.Contains(got, "agent 1.0.0") {
		t.Errorf("its output is not kept: %q", got)
	}
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	if dir := filepath.Dir(kept); !layout.Missing(dir) {
		t.Errorf("%s stays, though the agent is installed", dir)
	}
}

// testMachine is what the machine of a test reports.
func testMachine() *serverv1.Sysinfo {
	return &serverv1.Sysinfo{Hostname: "here", Kernel: "4.19.0-1-amd64"}
}

func TestWhatCannotWorkIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	t.Parallel()
	for code, change := range map[string]func(*imagev1.Manifest){
		"WRONG_PLATFORM":   func(m *imagev1.Manifest) { m.Platform = &serverv1.Platform{Os: "freebsd", Arch: "arm64"} },
		"UNSUPPORTED_KIND": kind(agentv1.Kind_KIND_SELF),
		"UNKNOWN_VARIABLE": func(m *imagev1.Manifest) { m.Run.Args = append(m.Run.Args, "${label.rack}") },
		"NO_SPACE":         func(m *imagev1.Manifest) { m.Machine = &imagev1.Machine{DiskBytes: 1 << 50} },
		"UNFIT_MACHINE":    func(m *imagev1.Manifest) { m.Machine = &imagev1.Machine{Kernel: "5.10"} },
		"OUTSIDE":          func(m *imagev1.Manifest) { m.Run.Command = "../../bin/sh" },
	} {
		t.Run(code, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			o := outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready", change))), taskv1.State_STATE_UNDONE)
			at := taskv1.Step_STEP_CHECK
			if code == "NO_SPACE" {
				at = taskv1.Step_STEP_RESERVE
			}
			if o.GetCode() != code || o.GetFailedStep() != at {
				t.Errorf("outcome %v, want %s in %s", o, code, at)
			}
			if left := b.left(); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestARemovalTakesAwayEverythingAndSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
	if left, pids := b.left(), b.pids(); len(left)+len(pids) != 0 {
		t.Errorf("left: %v, processes %v", left, pids)
	}
	var paths []string
	for _, rep := range r.reports() {
		for _, p := range rep.GetReceipt().GetRemoved() {
			paths = append(paths, strings.Split(p.GetPath(), "/")[0]+"/"+filepath.Base(p.GetPath())[:3])
		}
	}
	slices.Sort(paths)
	if len(paths) != 6 || !slices.Contains(paths, "agents/cur") || !slices.Contains(paths, "agents/ins") {
		t.Errorf("the receipt names %v", paths)
	}
}

func TestARemovalOfAnotherInstanceRemovesNothingAndSucceeds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("other"))), taskv1.State_STATE_SUCCEEDED)
	r.good("cn-agent", "1.0.0")
}

func TestAbsenceInADocumentRemovesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	b.drop("cn-agent")
	r.do(b.want(b.image("net-agent", "1.0.0", "ready")))
	r.good("cn-agent", "1.0.0")
}

func TestAnOlderDocumentIsNotTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	stale := &desiredv1.Document{
		ServerId:   serverID,
		Generation: 0,
		Removals:   []*desiredv1.Removal{{Agent: "cn-agent", InstanceId: instanceOf("cn-agent"), TaskId: "stale"}},
	}
	r.Offer(stale)
	r.do(b.want(b.image("net-agent", "1.0.0", "ready")))
	r.good("cn-agent", "1.0.0")
	if r.endedTask("stale") != nil {
		t.Error("a task of a stale document was executed")
	}
}

func TestATaskThatEndedIsReportedAgainAndNotExecutedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	task := b.want(b.image("cn-agent", "1.0.0", "crash"))
	r.do(task)
	r.acknowledgeAll()
	b.doc.Generation++
	r.offer()
	r.eventually("the end is reported again", func() bool {
		return slices.ContainsFunc(r.reports(), func(rep *reportv1.Report) bool {
			return rep.GetTask().GetTaskId() == task && rep.GetTask().GetState() == taskv1.State_STATE_UNDONE
		})
	})
	for _, rep := range r.reports() {
		if rep.GetTask().GetState() == taskv1.State_STATE_RUNNING {
			t.Error("it was executed again")
		}
	}
}

func TestARefreshIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	b.doc.Generation++
	b.doc.Requests = []*desiredv1.Request{{TaskId: "refresh"}}
	outcome(t, r.do("refresh"), taskv1.State_STATE_SUCCEEDED)
	r.offer()
	b.doc.Requests = nil
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	answers := 0
	for _, rep := range r.reports() {
		if rep.GetAgents().GetTaskId() == "refresh" || rep.GetSysinfo().GetTaskId() == "refresh" {
			answers++
		}
	}
	if answers != 2 {
		t.Errorf("%d answers, want one of each kind", answers)
	}
}

func TestAnEntryWithoutATaskIsConvergedToSilently(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	b.want(b.image("cn-agent", "1.0.0", "ready"))
	b.settleDocument()
	r.offer()
	r.eventually("the agent is there", func() bool { return r.the("cn-agent").GetPid() != 0 })
	for _, rep := range r.reports() {
		if rep.GetTask() != nil {
			t.Errorf("a task was reported: %v", rep)
		}
	}
}

func TestFilesAndSetUpsAreInstalled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("gz-tools", "1.0.0", "", kind(agentv1.Kind_KIND_FILES)))),
		taskv1.State_STATE_SUCCEEDED)
	outcome(t, r.do(b.want(b.image("dockerlogger", "1.0.0", "setup", kind(agentv1.Kind_KIND_ONESHOT)))),
		taskv1.State_STATE_SUCCEEDED)
	r.good("gz-tools", "1.0.0")
	r.good("dockerlogger", "1.0.0")
	o := outcome(t, r.do(b.want(b.image("dockerlogger", "2.0.0", "setup-fails", kind(agentv1.Kind_KIND_ONESHOT)))),
		taskv1.State_STATE_UNDONE)
	if o.GetCode() != "SETUP_FAILED" {
		t.Errorf("outcome %v", o)
	}
	r.good("dockerlogger", "1.0.0")
	if set, _ := os.ReadFile(filepath.Join(b.root.State("dockerlogger"), "setup")); string(set) != "1.0.0" {
		t.Errorf("the set-up of %q is in place", set)
	}
}

func TestEntriesAreChangedByTierAndDependency(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	var tasks []string
	for _, agent := range []string{"a-last", "b-middle", "c-first"} {
		tasks = append(tasks, b.want(b.image(agent, "1.0.0", "ready")))
	}
	b.doc.Entries[0].Tier = 2
	b.doc.Entries[1].Tier, b.doc.Entries[1].Dependencies = 1, []string{"c-first"}
	b.doc.Entries[2].Tier = 1
	r.offer()
	for _, id := range tasks {
		outcome(t, r.wait(id), taskv1.State_STATE_SUCCEEDED)
	}
	var done []string
	for _, rep := range r.reports() {
		if task := rep.GetTask(); task.GetState() == taskv1.State_STATE_SUCCEEDED {
			done = append(done, task.GetTaskId())
		}
	}
	slices.Reverse(tasks)
	if diff := cmp.Diff(tasks, done); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestADeadServerKeepsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	b.doc.Generation++
	b.doc.Life, b.doc.Entries = serverv1.Life_LIFE_DEAD, nil
	r.offer()
	r.eventually("no process is left", func() bool { return len(b.pids()) == 0 })
	r.eventually("no file is left", func() bool { return len(b.left()) == 0 })
}

func TestAnAgentThatCrashesIsRestartedAndReported(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	old := r.good("cn-agent", "1.0.0").GetPid()
	p, _ := os.FindProcess(int(old))
	_ = p.Kill()
	r.eventually("it runs again", func() bool {
		f := r.the("cn-agent")
		return f.GetPid() != 0 && f.GetPid() != old
	})
	r.eventually("that is reported", func() bool {
		return slices.ContainsFunc(r.reports(), func(rep *reportv1.Report) bool {
			return len(rep.GetAgents().GetAgents()) == 1 &&
				rep.GetAgents().GetAgents()[0].GetPid() == r.the("cn-agent").GetPid()
		})
	})
}

func TestALongRootWorksThoughSocketsHaveShortPaths(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.root = b.root + "/" + "a-directory-with-a-name-that-is-much-longer-" +
		"than-what-fits-into-the-address-of-a-unix-socket-on-linux"
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	r.good("cn-agent", "1.0.0")
}
