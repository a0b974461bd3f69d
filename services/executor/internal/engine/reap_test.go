package engine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// forever returns a version more time to prove itself than any test has.
func forever(m *imagev1.Manifest) { m.Run.Ready.TimeoutMs = 3600_000 }

// dies has the document say that the server is dead.
func (b *workbench) dies() {
	b.doc.Generation++
	b.doc.Life, b.doc.Entries, b.doc.Removals = serverv1.Life_LIFE_DEAD, nil, nil
}

// buried waits until nothing is left of any agent.
func (r *running) buried() {
	r.t.Helper()
	r.eventually("nothing is left", func() bool { return len(r.left()) == 0 && len(r.pids()) == 0 })
}

// heardUntil waits until an executor passed a point of a change.
func heardUntil(point string) (func(*Config), <-chan struct{}) {
	passed := make(chan struct{})
	return at(point, func() bool { close(passed); return true }), passed
}

func TestAChangeUnderWayIsGivenUpWhenTheServerIsDead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to, point string
		how             []func(*imagev1.Manifest)
		state           taskv1.State
	}{
		"a first install": {"", "mute", "begin prove", nil, taskv1.State_STATE_UNDONE},
		"an upgrade":      {"ready", "mute", "begin prove", nil, taskv1.State_STATE_FAILED},
		"a set-up": {
			"", "mute", "begin prove", []func(*imagev1.Manifest){kind(agentv1.Kind_KIND_ONESHOT)},
			taskv1.State_STATE_UNDONE,
		},
		"an undo": {
			"plain", "poison", "linked back", []func(*imagev1.Manifest){checked}, taskv1.State_STATE_FAILED,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			passes, passed := heardUntil(c.point)
			r := b.run()
			if c.from != "" {
				outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", c.from, append(c.how, forever)...))),
					taskv1.State_STATE_SUCCEEDED)
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			r = b.run(passes)
			task := b.want(b.image("cn-agent", "2.0.0", c.to, append(c.how, forever)...))
			r.offer()
			<-passed
			b.dies()
			o := outcome(t, r.do(task), c.state)
			if name != "an undo" && o.GetCode() != code.ServerDead {
				t.Errorf("outcome %v", o)
			}
			r.buried()
		})
	}
}

// Found in the journal, the change is as when it was interrupted: the new version runs.
func TestAnInterruptedChangeOfADeadServerIsGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	task := b.want(b.image("cn-agent", "2.0.0", "mute", forever))
	_ = child{Root: b.root, Shelf: b.shelf, Document: b.write(), KillAt: "new started"}.start(t).Wait()
	if len(b.pids()) != 1 {
		t.Fatalf("processes %v", b.pids())
	}
	b.dies()
	r = b.run()
	if o := outcome(t, r.do(task), taskv1.State_STATE_FAILED); o.GetCode() != code.ServerDead {
		t.Errorf("outcome %v", o)
	}
	r.buried()
}

// A death that is not believed, or is older than the document that was taken, ends no change.
func TestADeathThatIsNotFollowedGivesNothingUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	passes, passed := heardUntil("begin prove")
	release := filepath.Join(b.root.State("cn-agent"), "sick")
	r := b.run(passes, func(c *Config) {
		c.Believe = func(d *desiredv1.Document) bool { return d.GetLife() != serverv1.Life_LIFE_DEAD }
	})
	b.doc.Generation = 5
	task := b.want(b.image("cn-agent", "1.0.0", "plain", checked, forever))
	if err := os.MkdirAll(filepath.Dir(release), 0o750); err != nil {
		t.Fatal(err)
	}
	b.sicken("cn-agent")
	r.offer()
	<-passed
	for _, generation := range []uint64{1, 100} {
		lie := proto.Clone(b.doc).(*desiredv1.Document)
		lie.Generation, lie.Life, lie.Entries = generation, serverv1.Life_LIFE_DEAD, nil
		r.Offer(lie)
	}
	if err := os.Remove(release); err != nil {
		t.Fatal(err)
	}
	outcome(t, r.wait(task), taskv1.State_STATE_SUCCEEDED)
}

// What is soaked is given up as well, and the time that a soak has is no reason to wait.
func TestASoakEndsWithTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	passes, passed := heardUntil("new started")
	r := b.run(passes)
	task := b.want(
		b.image("cn-agent", "1.0.0", "ready",
			func(m *imagev1.Manifest) { m.Run.Ready.SoakMs = uint32(time.Hour.Milliseconds()) }),
	)
	r.offer()
	<-passed
	b.dies()
	if o := outcome(t, r.do(task), taskv1.State_STATE_UNDONE); o.GetCode() != code.ServerDead {
		t.Errorf("outcome %v", o)
	}
	r.buried()
}
