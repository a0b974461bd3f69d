package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/services/executor/internal/detect"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// stray is a process that no executor started.
type stray struct {
	pid   int
	start uint64
	end   func()
}

func (s stray) candidate() string { return detect.ProcessID(s.pid, s.start) }

// runs reports whether it is the process that it was.
func (s stray) runs() bool {
	start, ok := proctree.StartTime(s.pid)
	return ok && start == s.start
}

// writeProgram writes a program that can be started at once. A process that another test forks while the file is open
// for writing would keep it busy.
func writeProgram(path string, data []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, data, 0o755)
}

// stray starts the test agent's program, followed by some bytes, outside of the root.
func (b *workbench) stray(more string) stray {
	b.t.Helper()
	program := filepath.Join(b.t.TempDir(), "by-hand")
	if err := writeProgram(program, append(slices.Clone(agentBinary), more...)); err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.Command(program, "plain")
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	s := stray{pid: cmd.Process.Pid, end: func() { _ = cmd.Process.Kill(); <-ended }}
	b.t.Cleanup(s.end)
	s.start, _ = proctree.StartTime(s.pid)
	return s
}

// adopt puts an entry into the document that takes a candidate over.
func (b *workbench) adopt(m *imagev1.Manifest, candidate string) string {
	task := b.want(m)
	e := b.doc.Entries[len(b.doc.Entries)-1]
	e.Verb, e.AdoptCandidate = taskv1.Verb_VERB_ADOPT, candidate
	return task
}

// release puts a removal into the document that leaves the process.
func (b *workbench) release(agent string) string {
	task := b.unwant(agent, instanceOf(agent))
	b.doc.Removals[len(b.doc.Removals)-1].Release = true
	return task
}

func TestAnAdoptedProcessIsTheAgentAndIsReleasedAsItWas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r, s := b.run(), b.stray("")
	o := outcome(t, r.do(b.adopt(b.image("cn-agent", "1.0.0", "ready"), s.candidate())), taskv1.State_STATE_SUCCEEDED)
	if a := o.Adoption; int(a.GetPid()) != s.pid || !a.Same || len(a.ExeSha256) != 32 || a.Candidate != s.candidate() {
		t.Errorf("proven by %v", a)
	}
	if f := r.good("cn-agent", "1.0.0"); int(f.GetPid()) != s.pid || f.GetAdoption().GetPid() != f.GetPid() {
		t.Errorf("found %v", f)
	}
	b.settleDocument()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run(func(c *Config) { c.StopAgents = true })
	r.eventually("it is taken over", func() bool { return int(r.the("cn-agent").GetPid()) == s.pid })
	outcome(t, r.do(b.release("cn-agent")), taskv1.State_STATE_SUCCEEDED)
	if left := b.agentsLeft(); len(left) > 0 || r.the("cn-agent") != nil || !s.runs() {
		t.Errorf("released: left %v, found %v, runs %v", left, r.the("cn-agent"), s.runs())
	}
	outcome(t, r.do(b.adopt(b.image("cn-agent", "1.0.0", "ready"), s.candidate())), taskv1.State_STATE_SUCCEEDED)
	if err := r.stop(); err != nil || !s.runs() {
		t.Errorf("the end of the executor ended the adopted process: %v", err)
	}
}

// agentsLeft lists what is below agents/.
func (b *workbench) agentsLeft() []string {
	return slices.DeleteFunc(b.left(), func(name string) bool { return !strings.HasPrefix(name, "agents/") })
}

func TestAnUpgradeOfAnAdoptedProcessReplacesIt(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"of the image": "", "of another program": "more"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r, s := b.run(), b.stray(more)
			one := b.image("cn-agent", "1.0.0", "ready")
			outcome(t, r.do(b.adopt(one, s.candidate())), taskv1.State_STATE_SUCCEEDED)
			if f := r.the("cn-agent"); f.GetHealth() != instancev1.Health_HEALTH_GOOD || !s.runs() ||
				f.GetAdoption().GetSame() != (more == "") || (f.GetImage().GetId() == one.Id) != (more == "") {
				t.Fatalf("adopted as %v", f)
			}
			next := one // another program is replaced by the version for which it was taken
			if more == "" {
				next = b.image("cn-agent", "2.0.0", "ready")
			}
			outcome(t, r.do(b.wantWith(next, taskv1.Verb_VERB_UPGRADE, nil)), taskv1.State_STATE_SUCCEEDED)
			if f := r.good("cn-agent", next.Version); int(f.GetPid()) == s.pid || f.Adoption != nil || s.runs() {
				t.Errorf("after the upgrade: %v, the process runs: %v", f, s.runs())
			}
			if o := outcome(t, r.do(b.release("cn-agent")), taskv1.State_STATE_UNDONE); o.Code != code.NotAdopted {
				t.Errorf("released with %v", o)
			}
			r.good("cn-agent", next.Version)
		})
	}
}

func TestAnAdoptedProcessThatEndsIsStartedOnlyFromItsImage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r, s := b.run(), b.stray("")
	outcome(t, r.do(b.adopt(b.image("cn-agent", "1.0.0", "ready"), s.candidate())), taskv1.State_STATE_SUCCEEDED)
	b.settleDocument()
	r.offer()
	s.end()
	r.eventually("it runs again", func() bool {
		pid := r.the("cn-agent").GetPid()
		return pid != 0 && int(pid) != s.pid
	})
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	b.killAgents()

	b = newBench(t)
	r, s = b.run(), b.stray("more")
	outcome(t, r.do(b.adopt(b.image("cn-agent", "1.0.0", "ready"), s.candidate())), taskv1.State_STATE_SUCCEEDED)
	b.settleDocument()
	r.offer()
	s.end()
	r.eventually("it is bad", func() bool { return r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_BAD })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run()
	r.offer()
	r.eventually("it is bad after a restart", func() bool {
		return r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_BAD
	})
	if pids := b.pids(); len(pids) > 0 {
		t.Errorf("started %v", pids)
	}
}

// A repair restarts the agent from its image, which would replace a process that runs something else, unasked.
func TestDamageBesideAnAdoptedProcessOfAnotherProgramIsNotHealedWithoutATask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r, s := b.run(), b.stray("more")
	one := b.image("cn-agent", "1.0.0", "ready")
	outcome(t, r.do(b.adopt(one, s.candidate())), taskv1.State_STATE_SUCCEEDED)
	others := []*imagev1.Manifest{b.image("vm-agent", "1.1.0", "ready"), b.image("gz-agent", "1.2.0", "ready")}
	for _, m := range others {
		outcome(t, r.do(b.want(m)), taskv1.State_STATE_SUCCEEDED)
	}
	b.settleDocument()
	r.offer()
	b.damage(one)
	for _, m := range others { // one after the other: a repair of the first agent would have begun
		was := r.good(m.Agent, m.Version).GetPid()
		b.damage(m)
		r.eventually("another one is repaired", func() bool {
			f := r.the(m.Agent)
			return f.GetHealth() == instancev1.Health_HEALTH_GOOD && f.GetPid() != was
		})
	}
	if f := r.the("cn-agent"); !s.runs() || f.GetCode() != code.Damaged {
		t.Errorf("found %v, the process runs: %v", f, s.runs())
	}
	outcome(t, r.do(b.wantWith(one, taskv1.Verb_VERB_UPGRADE, nil)), taskv1.State_STATE_SUCCEEDED)
	if f := r.good("cn-agent", "1.0.0"); f.Adoption != nil || s.runs() {
		t.Errorf("after a task: %v, the process runs: %v", f, s.runs())
	}
}

func TestWhatIsNotTheCandidateIsNotAdopted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r, s := b.run(), b.stray("")
	one := b.image("cn-agent", "1.0.0", "ready")
	listens := b.image("cn-agent", "3.0.0", "ready", func(m *imagev1.Manifest) {
		m.Run.Sockets = []*imagev1.Socket{{Name: "http", Listen: "127.0.0.1:1"}}
	})
	other := b.image("cn-agent", "4.0.0", "ready", func(m *imagev1.Manifest) {
		m.Platform = &serverv1.Platform{Os: "freebsd", Arch: "amd64"}
	})
	sick := b.image("cn-agent", "5.0.0", "ready", func(m *imagev1.Manifest) {
		m.Run.Ready.Probe = &imagev1.Ready_Tcp{Tcp: ownAddress(t)}
		m.Run.Ready.TimeoutMs = 300
	})
	for _, c := range []struct {
		name, candidate, code string
		image                 *imagev1.Manifest
	}{
		{"a process that ended", detect.ProcessID(1<<22-1, 7), code.CandidateGone, one},
		{"another start of its id", detect.ProcessID(s.pid, s.start+1), code.CandidateGone, one},
		{"the executor", detect.ProcessID(os.Getpid(), startTime(t, os.Getpid())), code.CandidateManaged, one},
		{"an image with sockets", s.candidate(), code.NotAdoptable, listens},
		{"an image for another platform", s.candidate(), code.WrongPlatform, other},
		{"a health check that fails", s.candidate(), code.NotReady, sick},
	} {
		o := outcome(t, r.do(b.adopt(c.image, c.candidate)), taskv1.State_STATE_UNDONE)
		if o.Code != c.code || len(b.agentsLeft()) > 0 || !s.runs() {
			t.Errorf("%s: %v, left %v, runs %v; want %s", c.name, o, b.agentsLeft(), s.runs(), c.code)
		}
	}
	outcome(t, r.do(b.adopt(one, s.candidate())), taskv1.State_STATE_SUCCEEDED)
	again := b.image("vm-agent", "1.0.0", "ready")
	o := outcome(t, r.do(b.adopt(again, s.candidate())), taskv1.State_STATE_UNDONE)
	if o.Code != code.CandidateManaged {
		t.Errorf("adopted twice: %v", o)
	}
	r.good("cn-agent", "1.0.0")
}

func startTime(t *testing.T, pid int) uint64 {
	t.Helper()
	start, ok := proctree.StartTime(pid)
	if !ok {
		t.Fatalf("process %d does not run", pid)
	}
	return start
}

// A kill at each point of an adoption or a release leaves the process as it was, and the agent adopted or not there,
// before any document says more. Then the document completes what began.
func TestAKillAtAnyPointLeavesAProcessAdoptedOrNot(t *testing.T) {
	t.Parallel()
	for _, releases := range []bool{false, true} {
		for _, point := range pointsOf(t, releases) {
			b := newBench(t)
			s := b.stray("")
			task := b.prepare(s, releases)
			cmd := child{Root: b.root, Shelf: b.shelf, Document: b.write(), KillAt: point}.start(t)
			late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			if _ = cmd.Wait(); !late.Stop() {
				t.Fatalf("it did not pass %q within a minute", point)
			}
			r := b.run()
			<-r.Ready()
			f := r.the("cn-agent")
			whole := f != nil && int(f.GetPid()) == s.pid && f.GetHealth() == instancev1.Health_HEALTH_GOOD
			if !s.runs() || !whole && (f != nil || len(b.agentsLeft()) > 0) {
				t.Errorf("releases %v, killed at %q: runs %v, found %v, left %v",
					releases, point, s.runs(), f, b.agentsLeft())
			}
			outcome(t, r.do(task), taskv1.State_STATE_SUCCEEDED)
			if f := r.the("cn-agent"); !s.runs() || (f == nil) != releases || f != nil && int(f.GetPid()) != s.pid {
				t.Errorf("releases %v, killed at %q, completed: runs %v, found %v", releases, point, s.runs(), f)
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			s.end()
		}
	}
}

// prepare writes an adoption into the document, or a release of what it adopted, and returns the task.
func (b *workbench) prepare(s stray, releases bool) string {
	task := b.adopt(b.image("cn-agent", "1.0.0", "ready"), s.candidate())
	if !releases {
		return task
	}
	r := b.run()
	outcome(b.t, r.do(task), taskv1.State_STATE_SUCCEEDED)
	if err := r.stop(); err != nil {
		b.t.Fatal(err)
	}
	return b.release("cn-agent")
}

// pointsOf returns the points that an adoption or a release passes.
func pointsOf(t *testing.T, releases bool) (points []string) {
	t.Helper()
	b := newBench(t)
	task := b.prepare(b.stray(""), releases)
	began := false
	done := make(chan struct{})
	r := b.run(func(c *Config) {
		c.FailPoint = func(p string) {
			select {
			case <-done:
				return
			default:
			}
			if began = began || strings.HasPrefix(p, "begin "); began && !slices.Contains(points, p) {
				points = append(points, p)
			}
			if p == "ended" {
				close(done)
			}
		}
	})
	outcome(t, r.do(task), taskv1.State_STATE_SUCCEEDED)
	<-done
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if len(points) < 8 {
		t.Fatalf("it passes only %v", points)
	}
	return points
}
