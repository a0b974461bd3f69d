package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// briefly waits for a probe not as long as others do.
func briefly(m *imagev1.Manifest) { m.Run.Ready.TimeoutMs = 2000 }

// sicken lets every probe of an agent that is checked fail.
func (b *workbench) sicken(agent string) { b.keep(agent, "sick", "no licence") }

// lapse lets an agent lapse that is to, again and again.
func (b *workbench) lapse(agent string) { b.keep(agent, "lapse", "") }

// keep puts a file into the state of an agent.
func (b *workbench) keep(agent, name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.root.State(agent), name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// says asserts what an outcome says.
func says(t *testing.T, o *taskv1.Outcome, code string, words ...string) {
	t.Helper()
	if o.GetCode() != code ||
		slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(o.GetReason(), w) }) {
		t.Errorf("outcome %s: %q, want %s and %q in it", o.GetCode(), o.GetReason(), code, words)
	}
}

func TestAFaultThatWasThereBeforeIsNotTheNewVersions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "plain", checked, briefly)))
	b.sicken("cn-agent")
	o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "plain", checked, briefly))), taskv1.State_STATE_UNDONE)
	says(t, o, code.BadAsBefore, "no licence", "the old version was unhealthy before the change", "it still is")
	f := r.the("cn-agent")
	if f.GetImage().GetVersion() != "1.0.0" || f.GetPid() == 0 || f.GetHealth() != instancev1.Health_HEALTH_BAD ||
		len(b.pids()) != 1 {
		t.Errorf("found %v, processes %v, want 1.0.0, running and bad", f, b.pids())
	}
	// one that it does not hinder
	outcome(t, r.do(b.want(b.image("cn-agent", "3.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	r.good("cn-agent", "3.0.0")
}

func TestAnOldVersionThatKeptEndingIsBroughtBackAndNotBlamedOnTheUndo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(func(c *Config) {
		p := testPolicy
		p.First, p.CrashLoop = time.Second, 1
		c.Supervisor = testSupervisor(c.Root, p)
	})
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "lapse"))), taskv1.State_STATE_SUCCEEDED)
	b.lapse("cn-agent")
	r.eventually("it keeps ending",
		func() bool { return strings.Contains(r.the("cn-agent").GetReason(), "keeps ending") })
	if why := r.the("cn-agent").GetReason(); !strings.Contains(why, "; last output: agent 1.0.0") {
		t.Errorf("the reason lacks its last words: %q", why)
	}
	r.eventually("it says when it is started again", func() bool {
		next := time.Until(r.the("cn-agent").GetNextAt().AsTime())
		return next > 0 && next <= 2*time.Second
	})
	o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "crash"))), taskv1.State_STATE_UNDONE)
	says(
		t,
		o,
		"EXITED",
		"exit status 3",
		"the old version was unhealthy before the change: it kept ending: exit status 6",
	)
	if strings.Contains(o.GetReason(), "it still is") {
		t.Errorf("it ran again for the soak, but the reason is %q", o.GetReason())
	}
	o = outcome(t,
		r.do(b.want(b.image("cn-agent", "3.0.0", "later", func(m *imagev1.Manifest) { m.Run.Ready.SoakMs = 2000 }))),
		taskv1.State_STATE_UNDONE)
	if o.GetCode() != "EXITED" && o.GetCode() != code.BadAsBefore {
		t.Errorf("outcome %v", o)
	}
	if v := r.the("cn-agent").GetImage().GetVersion(); v != "1.0.0" {
		t.Errorf("version %s is there", v)
	}
}

func TestAnOldVersionWhoseFilesWereDamagedBeforeIsBroughtBackAsItWas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	m := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(m))
	dir := b.root.Image(m.GetBlob().GetDigest())
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "VERSION")); err != nil {
		t.Fatal(err)
	}
	o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "crash"))), taskv1.State_STATE_UNDONE)
	says(t, o, "EXITED", "the old version was unhealthy before the change", "VERSION is missing")
	outcome(t, r.do(b.want(b.image("cn-agent", "3.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
}

func TestAnOldVersionThatTheNewOneSpoiledIsAFailedUndo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "plain", checked, briefly)))
	o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "poison"))), taskv1.State_STATE_FAILED)
	says(t, o, "EXITED", "then the old version failed its health check")
	if !strings.HasSuffix(o.GetLogTail(), task.OldOutput+"agent 1.0.0 plain") ||
		strings.Contains(o.GetReason(), "agent 1.0.0 plain") {
		t.Errorf("reason %q, output %q; want the old one's words in the output alone", o.GetReason(), o.GetLogTail())
	}
	f := r.the("cn-agent")
	if f.GetImage().GetVersion() != "1.0.0" || f.GetPid() == 0 || f.GetHealth() != instancev1.Health_HEALTH_BAD {
		t.Errorf("found %v, want 1.0.0, running and bad", f)
	}
}
