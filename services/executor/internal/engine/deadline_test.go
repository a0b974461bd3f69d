package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// The dispatcher ends a task at its deadline; what the server says later changes nothing any
// more. So the server undoes before.
func TestAVersionThatTakesTooLongIsUndoneBeforeTheDeadlineOfItsTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	slow := b.image("cn-agent", "2.0.0", "mute", func(m *imagev1.Manifest) { m.Run.Ready.TimeoutMs = 3600_000 })
	task := b.want(slow)
	deadline := time.Now().Add(12 * time.Second)
	b.doc.Entries[0].Deadline = timestamppb.New(deadline)
	ended := r.do(task)
	o := outcome(t, ended, undone)
	if o.GetCode() != code.TimedOut || o.GetFailedStep() != taskv1.Step_STEP_PROVE {
		t.Errorf("outcome %v, want %s in the proof", o, code.TimedOut)
	}
	if !ended.At.Before(deadline) {
		t.Errorf("it ended %s after the deadline", ended.At.Sub(deadline))
	}
	r.good("cn-agent", "1.0.0")
}

// wire is a bus that can be cut. It implements Bus.
type wire struct{ cut atomic.Bool }

func (w *wire) Connected() bool { return !w.cut.Load() }

func (w *wire) Answers(context.Context) error {
	if w.cut.Load() {
		return errors.New("connection refused")
	}
	return nil
}

func TestAVersionWithWhichTheBusDoesNotAnswerAnyMoreIsRolledBack(t *testing.T) {
	t.Parallel()
	const before, after = "1.0.0", "2.0.0"
	for _, c := range []struct {
		name           string
		cutAt, mendsAt string // points of the change
		within         uint32 // of the image, in milliseconds
		ends           taskv1.State
		code, runs     string
	}{
		{"the version cuts its server off", "new started", "linked back", 200, undone, code.CutOff, before},
		{"the bus is lost", "new started", "", 200, undone, code.BusLost, before},
		{"the bus comes back in time", "new started", "bus away", 60_000, good, "", after},
		{"the bus was away before", "begin rehearse", "", 200, good, "", after},
		{"the bus answers", "", "", 200, good, "", after},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			bus, upgrades := &wire{}, atomic.Bool{}
			r := b.run(func(cfg *Config) {
				cfg.Bus = bus
				cfg.FailPoint = func(p string) {
					switch {
					case !upgrades.Load():
					case p == c.cutAt:
						bus.cut.Store(true)
					case p == c.mendsAt:
						bus.cut.Store(false)
					}
				}
			})
			outcome(t, r.do(b.want(b.image("cn-agent", before, "ready"))), good)
			upgrades.Store(true)
			patient := func(m *imagev1.Manifest) { m.Run.Ready.BusTimeoutMs = c.within }
			task := b.want(b.image("cn-agent", after, "ready", patient))
			if o := outcome(t, r.do(task), c.ends); o.GetCode() != c.code {
				t.Errorf("outcome %v, want %q", o, c.code)
			}
			r.good("cn-agent", c.runs)
		})
	}
}
