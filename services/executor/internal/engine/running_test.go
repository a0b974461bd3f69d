package engine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
)

func TestTheVersionThatRunsIsAskedOfTheKernelAndNotOfTheLink(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(keeping(1, 1<<30))
	one := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(one))
	r.do(b.want(b.image("cn-agent", "2.0.0", "ready")))
	if err := layout.Link(b.root.ImageLink(one.GetBlob().GetDigest()), b.root.Current("cn-agent")); err != nil {
		t.Fatal(err)
	}
	f := r.the("cn-agent")
	if f.GetImage().GetVersion() != "1.0.0" || f.GetHealth() != instancev1.Health_HEALTH_BAD ||
		!strings.Contains(f.GetReason(), "another image: 2.0.0") {
		t.Errorf("found %v", f)
	}
}

func TestAScriptsProcessIsKnownByWhatItWasStartedWith(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "script", func(m *imagev1.Manifest) {
		m.Run.Command, m.Run.Args, m.Run.Ready = "bin/script", nil, &imagev1.Ready{SoakMs: 50}
	}))), taskv1.State_STATE_SUCCEEDED)
	f := r.good("cn-agent", "1.0.0")
	t.Cleanup(func() { p, _ := os.FindProcess(int(f.GetPid())); _ = p.Kill() })
	if got, want := hexOf(r.rooms.observe.ImageOf(int(f.GetPid()))), hexOf(f.GetImage().GetDigest()); got != want ||
		b.executes(int(f.GetPid())) {
		t.Errorf("process %d is of image %q, want %q by its environment", f.GetPid(), got, want)
	}
}

// start runs a program of an image by hand.
func (b *workbench) startByHand(m *imagev1.Manifest, env ...string) int {
	b.t.Helper()
	cmd := exec.Command(filepath.Join(b.root.Image(m.GetBlob().GetDigest()), "bin/agent"), "plain")
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func TestAProcessThatNothingHereKeepsIsReported(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(keeping(1, 1<<30))
	one := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(one))
	r.do(b.want(b.image("cn-agent", "2.0.0", "ready")))
	r.good("cn-agent", "2.0.0")
	pid := b.startByHand(one)
	r.eventually("it is bad", func() bool {
		f := r.the("cn-agent")
		return f.GetHealth() == instancev1.Health_HEALTH_BAD && f.GetImage().GetVersion() == "2.0.0" &&
			strings.Contains(f.GetReason(), "1.0.0 is also running")
	})
	r.eventually("that is reported", func() bool {
		return slices.ContainsFunc(r.reports(), func(rep *reportv1.Report) bool {
			return slices.ContainsFunc(rep.GetAgents().GetAgents(),
				func(f *reportv1.Found) bool { return strings.Contains(f.GetReason(), "is also running") })
		})
	})
	p, _ := os.FindProcess(pid)
	_ = p.Kill()
	r.eventually("it is good", func() bool { return r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_GOOD })
}

func TestAgentsThatAreNotOursAreFoundWithoutAnInstance(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	m := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(m))
	foreign := b.root.Agent("old-agent")
	if err := os.MkdirAll(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := layout.Link(b.root.ImageLink(m.GetBlob().GetDigest()), b.root.Current("old-agent")); err != nil {
		t.Fatal(err)
	}
	if f := r.the("old-agent"); f.GetInstanceId() != "" || f.GetReason() == "" ||
		f.GetTrace() != serverv1.Trace_TRACE_LINK ||
		f.GetPath() != "agents/old-agent/current" ||
		f.GetImage().GetVersion() != "1.0.0" {
		t.Errorf("found %v, want a link without an instance", f)
	}
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
	r.eventually("it is reported", func() bool {
		return slices.ContainsFunc(r.reports(), func(rep *reportv1.Report) bool {
			a := rep.GetAgents().GetAgents()
			return len(a) == 1 && a[0].GetAgent() == "old-agent"
		})
	})
}

func TestEachChangeOfABurstEndsInItsPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	agents := []string{"a-agent", "b-agent", "c-agent", "d-agent"}
	var tasks []string
	for _, agent := range agents {
		tasks = append(
			tasks,
			b.want(
				b.image(agent, "1.0.0", "plain",
					func(m *imagev1.Manifest) { m.Run.Ready = &imagev1.Ready{SoakMs: 300} }),
			),
		)
	}
	r.offer()
	for _, id := range tasks {
		outcome(t, r.wait(id), taskv1.State_STATE_SUCCEEDED)
	}
	for _, agent := range agents {
		r.good(agent, "1.0.0")
	}
}

func TestChangesThatEndTogetherAreWrittenOnce(t *testing.T) {
	t.Parallel()
	var writes [][]*steps.Run
	failed := errors.New("no space left")
	g := &endings{wait: time.Minute, write: func(rs []*steps.Run) error {
		writes = append(writes, rs)
		return failed
	}}
	const changes = 4
	for range changes {
		g.begin()
	}
	var all sync.WaitGroup
	for range changes {
		all.Go(func() {
			if err := g.end(&steps.Run{}); !errors.Is(err, failed) {
				t.Errorf("ended with %v, want %v", err, failed)
			}
		})
	}
	all.Wait()
	if len(writes) != 1 || len(writes[0]) != changes {
		t.Errorf("written as %v, want %d changes in one write", writes, changes)
	}
}

// said is how many reports were ever said. It waits until what the machine is was said at
// the start: that is read beside everything else, and is not counted.
func (r *running) said() (last uint64) {
	r.t.Helper()
	r.eventually("what the machine is was reported", func() bool {
		return slices.ContainsFunc(r.reports(), func(rep *reportv1.Report) bool { return rep.GetSysinfo() != nil })
	})
	for _, rep := range r.reports() {
		last = max(last, rep.GetSequence())
	}
	return last
}

func TestAnEndThatIsAloneDoesNotWait(t *testing.T) {
	t.Parallel()
	g := &endings{}
	g.begin()
	in, first := g.join(&steps.Run{})
	select {
	case <-in.full:
	default:
		t.Error("it waits")
	}
	if !first || g.open != nil {
		t.Errorf("first %v, open %v", first, g.open)
	}
	g.begin() // another one: it is not in that group
	if again, first := g.join(&steps.Run{}); again == in || !first {
		t.Error("it joined a group that was full")
	}
}

func TestAnEndWaitsForOthersForAWhileOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	slow := b.want(b.image("b-agent", "1.0.0", "mute", func(m *imagev1.Manifest) { m.Run.Ready.TimeoutMs = 60_000 }))
	quick := b.want(b.image("a-agent", "1.0.0", "ready"))
	r.offer()
	r.wait(quick)
	if r.endedTask(slow) != nil {
		t.Error("it ended with the slow one")
	}
}
