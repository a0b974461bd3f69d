package engine

import (
	"slices"
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
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
			p.owed = p.owed.Add(-2 * change.ListAfter) // as if that time had passed
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

func TestTheEndOfAChangeTakesThePlaceOfAListThatSaysNothingElse(t *testing.T) {
	t.Parallel()
	image := change.Manifest{Manifest: &imagev1.Manifest{Id: "two"}}
	rec := &change.Record{
		TaskID: "t", Agent: "web", InstanceID: "i", Generation: 2, Verb: taskv1.Verb_VERB_UPGRADE, To: image,
	}
	web := func(set func(*reportv1.Found)) *reportv1.Found {
		f := &reportv1.Found{
			Agent: "web", InstanceId: "i", Generation: 2, Image: &imagev1.Ref{Id: "two"},
			Health: instancev1.Health_HEALTH_GOOD, Pid: 7,
		}
		set(f)
		return f
	}
	as := func(*reportv1.Found) {}
	old := func(f *reportv1.Found) { f.Generation, f.Image, f.Pid = 1, &imagev1.Ref{Id: "one"}, 6 }
	db := func(pid uint32) *reportv1.Found { return &reportv1.Found{Agent: "db", Pid: pid} }
	list := func(f ...*reportv1.Found) *reportv1.AgentsReport { return &reportv1.AgentsReport{Agents: f} }
	for name, c := range map[string]struct {
		last, found *reportv1.AgentsReport
		want        bool
	}{
		"an upgrade":              {list(db(1), web(old)), list(db(1), web(as)), true},
		"an installation":         {list(db(1)), list(db(1), web(as)), true},
		"another agent differs":   {list(db(1), web(old)), list(db(2), web(as)), false},
		"nothing was listed yet":  {nil, list(web(as)), false},
		"it is bad":               {list(web(old)), list(web(func(f *reportv1.Found) { f.Health++ })), false},
		"it is another image":     {list(web(old)), list(web(func(f *reportv1.Found) { f.Image.Id = "one" })), false},
		"more beside it":          {list(web(old)), list(web(as), web(traced)), false},
		"what was unmanaged":      {list(web(traced)), list(web(as)), false},
		"what was beside it went": {list(web(old), web(traced)), list(web(as)), false},
		"another instance was it": {list(web(func(f *reportv1.Found) { f.InstanceId = "j" })), list(web(as)), false},
	} {
		p := &reporter{last: c.last}
		if got := p.brought(c.found, []*steps.Run{{Record: rec}}); (got != nil) != c.want {
			t.Errorf("%s: %v, want it %v", name, got, c.want)
		}
	}
}

func traced(f *reportv1.Found) { f.Trace, f.InstanceId = serverv1.Trace_TRACE_LINK, "" }
