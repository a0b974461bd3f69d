package engine

import (
	"slices"
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

// A change that is done within a second is one report: its end, which shows the agent. A longer one has reported its
// start before.
func TestTheEndOfAChangeShowsWhatItBrought(t *testing.T) {
	t.Parallel()
	for name, soak := range map[string]time.Duration{
		"short": 10 * time.Millisecond, "long": change.Long + 200*time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := b.run(func(c *Config) { c.CheckEvery = time.Hour })
			outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
			before := len(r.reports())
			task := b.want(b.image("cn-agent", "2.0.0", "ready", func(m *imagev1.Manifest) {
				m.Run.Ready.SoakMs = uint32(soak.Milliseconds())
			}))
			began := time.Now()
			r.do(task)
			late := time.Since(began) > change.Long // on a busy machine the short one may be, too
			var said []taskv1.State
			var shown *taskv1.Shown
			var last uint64
			for _, rep := range r.reports()[before:] {
				if rep.GetSequence() <= last {
					t.Errorf("sequence %d after %d", rep.GetSequence(), last)
				}
				last = rep.GetSequence()
				if rep.GetTask().GetTaskId() == task {
					said, shown = append(said, rep.GetTask().GetState()), rep.GetTask().GetOutcome().GetShown()
				}
			}
			started := slices.Contains(said, taskv1.State_STATE_RUNNING)
			if len(said) == 0 || said[len(said)-1] != taskv1.State_STATE_SUCCEEDED || started && !late ||
				name == "long" && !started {
				t.Errorf("the reports of the task are %v", said)
			}
			if err := r.Turn(t.Context()); err != nil || shown == nil {
				t.Errorf("the end shows %v; %v", shown, err)
			}
			if said := r.reports(); said[len(said)-1].GetTask().GetTaskId() != task {
				t.Errorf("%v follows the end, which shows all that is new", said[len(said)-1])
			}
			p := r.Engine.reports
			p.mu.Lock()
			p.owed = p.owed.Add(-2 * listAfter) // as if that time had passed
			p.mu.Unlock()
			for range 2 {
				if err := p.sayAgents("", false); err != nil {
					t.Fatal(err)
				}
			}
			all := r.reports()
			if list := all[len(all)-1]; list.GetAgents() == nil || list.GetSequence() != last+1 {
				t.Errorf("%v follows later, want one list", list)
			}
		})
	}
}
