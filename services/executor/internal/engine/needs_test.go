package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func needsExecutor(v string) func(*imagev1.Manifest) {
	return func(m *imagev1.Manifest) { m.ExecutorVersion = v }
}

func conflicts(agents ...string) func(*imagev1.Manifest) {
	return func(m *imagev1.Manifest) { m.Conflicts = agents }
}

// refused asserts that a task was refused before anything was touched.
func refused(t *testing.T, o *taskv1.Outcome, code, says string) {
	t.Helper()
	if o.GetCode() != code || o.GetFailedStep() != taskv1.Step_STEP_CHECK || !strings.Contains(o.GetReason(), says) {
		t.Errorf("outcome %v, want %s in the check, with %q", o, code, says)
	}
}

func TestAnImageThatNeedsANewerExecutorIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(func(c *Config) { c.Version = "v1.4.2" })
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready", needsExecutor("1.4.2")))),
		taskv1.State_STATE_SUCCEEDED)
	o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready", needsExecutor("1.5.0")))),
		taskv1.State_STATE_UNDONE)
	refused(t, o, code.ExecutorTooOld, "1.5.0")
	r.good("cn-agent", "1.0.0")
}

func TestAgentsThatMustNotBeTogetherAreRefusedFromEitherSide(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready", conflicts("old-agent"))))
	o := outcome(t, r.do(b.want(b.image("old-agent", "1.0.0", "ready"))), taskv1.State_STATE_UNDONE)
	refused(t, o, code.Conflicts, "cn-agent")
	b.drop("old-agent")
	o = outcome(t, r.do(b.want(b.image("net-agent", "1.0.0", "ready", conflicts("x-agent", "cn-agent")))),
		taskv1.State_STATE_UNDONE)
	refused(t, o, code.Conflicts, "cn-agent")
	r.good("cn-agent", "1.0.0")
	if pids := b.pids(); len(pids) != 1 {
		t.Errorf("processes %v", pids)
	}
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready", conflicts("old-agent")))),
		taskv1.State_STATE_SUCCEEDED)
}

func TestOfTwoThatConflictAndComeTogetherOneIsInstalled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	one := b.want(b.image("cn-agent", "1.0.0", "ready", conflicts("net-agent")))
	two := b.want(b.image("net-agent", "1.0.0", "ready", conflicts("cn-agent")))
	r.offer()
	states := []taskv1.State{r.wait(one).State, r.wait(two).State}
	slices.Sort(states)
	want := []taskv1.State{taskv1.State_STATE_SUCCEEDED, taskv1.State_STATE_UNDONE}
	slices.Sort(want)
	if !slices.Equal(states, want) || len(b.pids()) != 1 {
		t.Errorf("states %v, processes %v", states, b.pids())
	}
}

func TestAnAgentTakesThePlaceOfOneItConflictsWith(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("old-agent", "1.0.0", "ready")))
	b.settleDocument()
	gone := b.unwant("old-agent", instanceOf("old-agent"))
	come := b.want(b.image("cn-agent", "1.0.0", "ready", conflicts("old-agent")))
	r.offer()
	outcome(t, r.wait(gone), taskv1.State_STATE_SUCCEEDED)
	outcome(t, r.wait(come), taskv1.State_STATE_SUCCEEDED)
	r.good("cn-agent", "1.0.0")
}

func TestAnAgentWhoseDependencyIsNotThereIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	task := b.want(b.image("cn-agent", "1.0.0", "ready"))
	b.doc.Entries[0].Dependencies = []string{"base"}
	refused(t, outcome(t, r.do(task), taskv1.State_STATE_UNDONE), code.MissingDependency, "base")
	if left := b.left(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	base := b.want(b.image("base", "1.0.0", "crash"))
	b.drop("cn-agent")
	task = b.want(b.image("cn-agent", "1.0.0", "ready"))
	b.doc.Entries[1].Dependencies = []string{"base"}
	r.offer()
	outcome(t, r.wait(base), taskv1.State_STATE_UNDONE)
	refused(t, outcome(t, r.wait(task), taskv1.State_STATE_UNDONE), code.MissingDependency, "base")
	outcome(t, r.do(b.want(b.image("base", "2.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	task = b.want(b.image("cn-agent", "1.0.0", "ready"))
	b.doc.Entries[1].Dependencies = []string{"base"}
	outcome(t, r.do(task), taskv1.State_STATE_SUCCEEDED)
}

// checked returns an agent a program of its image as its probe.
func checked(m *imagev1.Manifest) {
	m.Run.Ready.Probe = &imagev1.Ready_Exec{Exec: &imagev1.Exec{Command: "bin/agent", Args: []string{"check"}}}
}

func TestAProgramOfTheImageProvesAnAgentAndLaterSaysHowItIs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "plain", checked))), taskv1.State_STATE_SUCCEEDED)
	r.good("cn-agent", "1.0.0")
	sick := filepath.Join(b.root.State("cn-agent"), "sick")
	if err := os.WriteFile(sick, []byte("no licence"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is bad", func() bool {
		f := r.the("cn-agent")
		return f.GetHealth() == instancev1.Health_HEALTH_BAD && strings.Contains(f.GetReason(), "no licence")
	})
	if err := os.Remove(sick); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is good", func() bool { return r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_GOOD })
}

func TestAProbeThatIsNotInTheImageIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	old := r.good("cn-agent", "1.0.0").GetPid()
	o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "plain", checked, func(m *imagev1.Manifest) {
		m.Run.Ready.GetExec().Command = "bin/none"
	}))), taskv1.State_STATE_UNDONE)
	if o.GetCode() != code.InvalidImage || o.GetFailedStep() != taskv1.Step_STEP_REHEARSE {
		t.Errorf("outcome %v", o)
	}
	b.staysAlone(r, old)
}

func TestAProgramThatTheServerCannotLoadIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	old := r.good("cn-agent", "1.0.0").GetPid()
	o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "plain", func(m *imagev1.Manifest) {
		m.Run.Command = "bin/lost"
	}))), taskv1.State_STATE_UNDONE)
	if o.GetCode() != code.MissingLibrary || !strings.Contains(o.GetReason(), "/nowhere/sh") {
		t.Errorf("outcome %v", o)
	}
	b.staysAlone(r, old)
}

// Whom the server trusts is asked of what comes to it, and not again of what it has.
func TestTheImageThatIsInstalledIsNotAskedAboutAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	trusted := true
	var mu sync.Mutex
	r := b.run(func(c *Config) {
		c.Trust = func(*imagev1.Manifest) error {
			mu.Lock()
			defer mu.Unlock()
			if trusted {
				return nil
			}
			return fault.Refusef(fault.Invalid, "UNSIGNED_IMAGE", "no trusted key signed it")
		}
	})
	m := b.image("cn-agent", "1.0.0", "", configured(imagev1.Reload_RELOAD_UNSPECIFIED))
	outcome(t, r.do(b.wantWith(m, install, values{"level": "info"})), good)
	mu.Lock()
	trusted = false
	mu.Unlock()
	outcome(t, r.set(m, values{"level": "debug"}), good)
	other := proto.CloneOf(m)
	other.Run.Args = append(other.Run.Args, "more")
	for _, bad := range []*imagev1.Manifest{other, b.image("cn-agent", "2.0.0", "")} {
		refused(t, outcome(t, r.do(b.wantWith(bad, upgrade, values{"level": "info"})), undone), "UNSIGNED_IMAGE",
			"no trusted key")
	}
	r.good("cn-agent", "1.0.0")
}
