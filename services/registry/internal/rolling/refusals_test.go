package rolling_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
)

// fleet is a world of so many servers of the environment prod that run web 1.0.0, and could run web 1.1.0.
func fleet(servers int) *world {
	w := newFleet()
	w.apply(ledger.Environment, "prod", &environmentv1.Created{Environment: &environmentv1.Environment{}})
	w.apply(ledger.Server, w.server, &serverv1.Dead{})
	w.apply(ledger.Server, w.server, &serverv1.Forgotten{})
	for n := range servers {
		w.comes(fmt.Sprintf("s%03d", n))
		w.apply(ledger.Server, w.server, &serverv1.Changed{Environment: "prod"})
		w.runs("web 1.0.0")
	}
	return w
}

// asked plans a rollout of web 1.1.0 to every server, after a change of what is asked for.
func (w *world) asked(change func(*intentv1.Rollout)) rolling.Planned {
	a := ask("r", "up web 1.1.0")
	if change != nil {
		change(a.Intent.GetRollout())
	}
	return rolling.Plan(w, a)
}

// checks are rollouts of web on four servers, and why they are refused.
type checks map[string]struct {
	ask        func(*intentv1.Rollout)
	code, text string // empty when it is accepted
}

func (c checks) run(t *testing.T, world func(*world)) {
	t.Helper()
	for name, x := range c {
		w := fleet(4)
		if world != nil {
			world(w)
		}
		why := w.asked(x.ask).Refusal
		if why.GetCode() != x.code || !strings.Contains(why.GetMessage(), x.text) {
			t.Errorf("%s: %v; want %q with %q", name, why, x.code, x.text)
		}
	}
}

// by sets a strategy.
func by(s *rolloutv1.Strategy) func(*intentv1.Rollout) {
	return func(q *intentv1.Rollout) { q.Strategy = s }
}

// taking is a stage of n servers.
func taking(n uint32) *rolloutv1.Stage {
	return &rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{Servers: n}}
}

func in(stages ...*rolloutv1.Stage) *rolloutv1.Strategy { return &rolloutv1.Strategy{Stages: stages} }

// of is a stage of the servers that meet a condition.
func of(field string, relation rolloutv1.Relation, values ...string) *rolloutv1.Stage {
	return &rolloutv1.Stage{Of: &rolloutv1.Group{Where: []*rolloutv1.Match{
		{Field: field, Relation: relation, Values: values},
	}}}
}

func ring(values ...string) *rolloutv1.Stage {
	return of("label.ring", rolloutv1.Relation_RELATION_IN, values...)
}

func keeping(field string) *rolloutv1.Strategy {
	return &rolloutv1.Strategy{Keep: []*rolloutv1.Keep{{
		Field: field, Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 2}},
	}}}
}

func TestAStrategyThatServersOrPeopleCannotMeetIsRefused(t *testing.T) {
	t.Parallel()
	minute, bad := durationpb.New(time.Minute), code.BadStrategy
	hurried := func(s *rolloutv1.Strategy) func(*intentv1.Rollout) {
		s.Emergency = true
		return by(s)
	}
	other := func(s *rolloutv1.Strategy) func(*intentv1.Rollout) {
		s.ApproveByOther = true
		return by(s)
	}
	gated := taking(4)
	gated.Approve = true
	checks{
		"it keeps by a field":         {by(keeping("rack")), bad, "rack"},
		"it keeps by agents":          {by(keeping("agents")), bad, "agents"},
		"it keeps by a label":         {by(keeping("label.rack")), "", ""},
		"it covers":                   {by(&rolloutv1.Strategy{Cover: []string{"label.a", "plattfrm"}}), bad, "plattf"},
		"it spreads":                  {by(&rolloutv1.Strategy{Spread: "rack"}), bad, "rack"},
		"it covers too much":          {by(&rolloutv1.Strategy{Cover: make([]string, 9)}), bad, ""},
		"an emergency":                {hurried(&rolloutv1.Strategy{}), "", ""},
		"it soaks":                    {hurried(&rolloutv1.Strategy{Soak: minute}), bad, "an emergency has no soak"},
		"a stage soaks":               {hurried(in(&rolloutv1.Stage{Soak: minute})), bad, "no soak"},
		"it is approved":              {hurried(&rolloutv1.Strategy{Approve: true}), bad, "waits for no approval"},
		"another approves one wave":   {other(in(taking(4))), bad, "in one wave"},
		"and its gate":                {other(in(gated)), "", ""},
		"another approves two waves":  {other(in(taking(1))), "", ""},
		"another approves in a hurry": {hurried(&rolloutv1.Strategy{ApproveByOther: true}), bad, "no approval"},
	}.run(t, nil)
	checks{
		"all are offline": {other(in(taking(1))), bad, "come back"},
	}.run(t, func(w *world) {
		for n := range 4 {
			w.apply(ledger.Server, fmt.Sprintf("s%03d", n), &serverv1.Offline{})
		}
	})
}

// Two servers have ring=a, one of them offline. An offline one has ring=b.
func TestAStageThatWouldHaveNoServerIsRefused(t *testing.T) {
	t.Parallel()
	const isIn, less = rolloutv1.Relation_RELATION_IN, rolloutv1.Relation_RELATION_LESS
	last := func(q *intentv1.Rollout) {
		q.On, q.Strategy = &intentv1.Selector{Servers: []string{"s003"}}, in(ring("a"))
	}
	checks{
		"its servers":        {by(in(ring("a"))), "", ""},
		"no server at all":   {by(in(ring("aa"))), code.NoServers, "ring=aa"},
		"none of its own":    {last, code.EmptyWave, "meets ring=a"},
		"all are offline":    {by(in(ring("b"))), code.EmptyWave, "1, all offline"},
		"all are taken":      {by(in(ring("a"), ring("a"))), code.EmptyWave, "earlier stages"},
		"no field":           {by(in(of("colour", isIn, "a"))), code.BadSelector, "colour"},
		"no environment":     {by(in(of("env", isIn, "a"))), code.UnknownEnvironment, `"a"`},
		"no relation":        {by(in(of("os", 0, "a"))), code.BadSelector, "operator"},
		"an order of no use": {by(in(of("os", less, "a"))), code.BadSelector, "no order"},
		"no conditions":      {by(in(&rolloutv1.Stage{Of: &rolloutv1.Group{}})), code.BadStrategy, "0 conditions"},
	}.run(t, func(w *world) {
		w.label("s000", "a")
		w.label("s001", "a")
		w.label("s002", "b")
		w.apply(ledger.Server, "s001", &serverv1.Offline{})
		w.apply(ledger.Server, "s002", &serverv1.Offline{})
	})
}

// label sets the ring of a server.
func (w *world) label(server, value string) {
	w.apply(ledger.Server, server, &serverv1.Changed{
		Environment: "prod", Labels: map[string]string{"ring": value},
	})
}

func standing(environment, agent string, values map[string]string) *rolloutv1.Standing {
	return &rolloutv1.Standing{Change: &rolloutv1.Standing_Default{
		Default: &rolloutv1.StandingDefault{Environment: environment, Agent: agent, Metadata: values},
	}}
}

func TestARolloutThatCannotBeginOrEndAsAskedIsRefused(t *testing.T) {
	t.Parallel()
	at := func(seconds int64) func(*intentv1.Rollout) {
		return func(q *intentv1.Rollout) { q.StartAt = &timestamppb.Timestamp{Seconds: seconds} }
	}
	then := func(s *rolloutv1.Standing) func(*intentv1.Rollout) {
		return func(q *intentv1.Rollout) { q.Then = append(q.Then, s) }
	}
	to := func(channel string) *rolloutv1.Standing {
		return &rolloutv1.Standing{Change: &rolloutv1.Standing_Promotion{
			Promotion: &rolloutv1.StandingPromotion{Channel: channel},
		}}
	}
	undo := func(q *intentv1.Rollout) { *q = intentv1.Rollout{UndoOf: "x"} } //nolint:govet // it is new
	checks{
		"it begins later":              {at(2000), "", ""},
		"it begins too late":           {at(1000 + 401*24*3600), code.Malformed, "400 days"},
		"its time has passed":          {at(999), code.StartPassed, "was to begin"},
		"it ends with a default":       {then(standing("prod", "web", nil)), "", ""},
		"an unknown environment":       {then(standing("prd", "web", nil)), code.UnknownEnvironment, "prd"},
		"an agent that no step brings": {then(standing("prod", "db", nil)), code.Malformed, "no step of it brings"},
		"a value that no image has": {
			then(standing("prod", "web", map[string]string{"": "x"})), code.BadMetadata, "",
		},
		"an unknown channel": {then(to("stabel")), code.UnknownChannel, "stabel"},
		"an empty change":    {then(&rolloutv1.Standing{}), code.Malformed, "empty"},
		"too many changes": {func(q *intentv1.Rollout) {
			q.Then = make([]*rolloutv1.Standing, 9)
		}, code.Malformed, "8 are the most"},
		"an undo of nothing": {undo, code.NotFound, `"x"`},
		"an undo at a time": {func(q *intentv1.Rollout) {
			undo(q)
			at(2000)(q)
		}, code.Malformed, "time of its start"},
		"no step": {func(q *intentv1.Rollout) { q.Steps = nil }, code.Malformed, "0 agents"},
		"more agents than one batch holds": {func(q *intentv1.Rollout) {
			for range 32 {
				q.Steps = append(q.Steps, q.Steps[0])
			}
		}, code.Malformed, "at most 32"},
		"an agent twice": {func(q *intentv1.Rollout) { q.Steps = append(q.Steps, q.Steps[0]) }, code.Malformed, "two"},
	}.run(t, func(w *world) { w.agent("db", 0) })
	held := map[string]string{"": code.NothingLeft, "web": code.Held}
	for agent, want := range held {
		w := fleet(2)
		w.apply(ledger.Instance, "s000.web", wants("web 1.1.0", 2))
		if w.apply(ledger.Instance, "s001.web", wants("web 1.1.0", 2)); agent != "" {
			w.apply(ledger.Instance, "s001.web", wants("web 1.0.0", 3))
			w.apply(ledger.Hold, "h", &holdv1.Hold{Agent: agent, On: &intentv1.Selector{All: true}})
		}
		if why := w.asked(nil).Refusal; why.GetCode() != want {
			t.Errorf("nothing is left, and %q is held: %v; want %s", agent, why, want)
		}
	}
}

func TestARolloutPlansWhatAHoldWhoseTimePassedHeld(t *testing.T) {
	for until, want := range map[int64]string{1000: "", 1001: code.Held} { // it is 1000
		w := fleet(1)
		w.apply(ledger.Hold, "h", &holdv1.Hold{
			Agent: "web", On: &intentv1.Selector{All: true}, Until: timestamppb.New(time.Unix(until, 0)),
		})
		if p := w.asked(nil); p.Refusal.GetCode() != want || (len(p.Targets) == 1) != (want == "") {
			t.Errorf("until %d: %d servers, %v; want %q", until, len(p.Targets), p.Refusal, want)
		}
	}
}

// More than intent.MostAtOnce servers change in waves, or the intent says that they need not.
func TestARolloutOfManyServersInOneWaveIsRefusedUnlessItSaysAtOnce(t *testing.T) {
	t.Parallel()
	few := func(n int) *intentv1.Selector {
		on := &intentv1.Selector{}
		for s := range n {
			on.Servers = append(on.Servers, fmt.Sprintf("s%03d", s))
		}
		return on
	}
	for name, c := range map[string]struct {
		strategy *rolloutv1.Strategy
		on       *intentv1.Selector
		atOnce   bool
		refused  bool
	}{
		"no strategy":        {refused: true},
		"one wave":           {strategy: &rolloutv1.Strategy{SuccessPercent: 99}, refused: true},
		"an emergency":       {strategy: &rolloutv1.Strategy{Emergency: true}, refused: true},
		"many side by side":  {strategy: &rolloutv1.Strategy{Concurrency: intent.MostAtOnce + 1}, refused: true},
		"few side by side":   {strategy: &rolloutv1.Strategy{Concurrency: 10}},
		"waves":              {strategy: in(taking(1))},
		"fewer servers":      {on: few(intent.MostAtOnce)},
		"one wave, and said": {atOnce: true},
	} {
		a := ask("r", "up web 1.1.0")
		a.Intent.AtOnce = c.atOnce
		q := a.Intent.GetRollout()
		if q.Strategy = c.strategy; c.on != nil {
			q.On = c.on
		}
		why := rolling.Plan(fleet(intent.MostAtOnce+1), a).Refusal
		if is := why.GetCode() == code.TooWide; is != c.refused || !is && why != nil ||
			is && !strings.Contains(why.Try, "--canaries 3 --waves 10%,50%") {
			t.Errorf("%s: %v; want it refused: %v", name, why, c.refused)
		}
	}
}

// An upgrade passes over the servers that lack the agent, and the default would bring it to them without a wave.
func TestADefaultThatWouldReachManyServersBesideTheRolloutIsRefused(t *testing.T) {
	t.Parallel()
	for lack, refused := range map[int]bool{intent.MostAtOnce: false, intent.MostAtOnce + 1: true} {
		w := fleet(1)
		for n := range lack {
			w.comes(fmt.Sprint("bare", n))
			w.apply(ledger.Server, w.server, &serverv1.Changed{Environment: "prod"})
		}
		p := w.asked(func(q *intentv1.Rollout) { q.Then = []*rolloutv1.Standing{standing("prod", "web", nil)} })
		if is := p.Refusal.GetCode() == code.TooWide; is != refused ||
			!is && !strings.HasSuffix(p.Title, fmt.Sprintf("(at once on others: %d)", lack)) {
			t.Errorf("beside %d servers: %q, %v; want it refused: %v", lack, p.Title, p.Refusal, refused)
		}
	}
}
