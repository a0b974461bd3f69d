package rollout_test

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

const (
	pending   = rolloutv1.TargetState_TARGET_STATE_PENDING
	reached   = rolloutv1.TargetState_TARGET_STATE_REACHED
	succeeded = rolloutv1.TargetState_TARGET_STATE_SUCCEEDED
	broken    = rolloutv1.TargetState_TARGET_STATE_BROKEN
	owed      = rolloutv1.TargetState_TARGET_STATE_OWED
	gone      = rolloutv1.TargetState_TARGET_STATE_GONE
	leftOut   = rolloutv1.TargetState_TARGET_STATE_LEFT_OUT
)

// entry is a fact of the rollout, or something that happened to a server.
type entry struct {
	fact   ledger.Fact
	server string
	event  rollout.Event
}

// engine is a registry that folds the ledger at its own pace.
type engine struct {
	book      *rollout.Book
	position  int
	key       int             // how many facts of the rollout it folded: what it guards by
	unhealthy map[string]bool // by server
	offline   map[string]bool
	forgiven  map[string]bool // broken when the rollout was resumed, and ever since
}

func newEngine() *engine {
	return &engine{
		book: &rollout.Book{}, unhealthy: map[string]bool{}, offline: map[string]bool{}, forgiven: map[string]bool{},
	}
}

// model is a rollout of a random fleet, with two engines that decide on views of different age.
type model struct {
	*rapid.T
	now      time.Time
	log      []entry
	key      int // how many facts of the rollout the ledger has
	engines  [2]*engine
	rack     map[string]string
	released map[string]int // how often each server was released
	underWay []string       // servers that were released and whose changes did not end
	unseen   []entry        // observations that are still awaited
	standing uint32         // how many servers of each rack their environment keeps working; 0 without a budget
	closes   bool           // the servers of some racks must not be changed at some times
	joined   int
	start    time.Time      // when the first wave may begin; zero means at once
	ends     map[string]int // how many changes of a server ended

	decisions int // how many decisions were recorded
}

func newModel(t *rapid.T) *model {
	m := &model{
		T: t, now: time.Unix(1000, 0), engines: [2]*engine{newEngine(), newEngine()}, rack: map[string]string{},
		released: map[string]int{}, ends: map[string]int{},
	}
	m.standing = rapid.SampledFrom([]uint32{0, 0, 0, 1, 2}).Draw(t, "standing")
	m.closes = rapid.IntRange(0, 3).Draw(t, "closes") == 0
	var candidates []rollout.Candidate
	for n := range rapid.IntRange(1, 30).Draw(t, "servers") {
		candidates = append(candidates, m.candidate(fmt.Sprint("s", n)))
	}
	s := someStrategy(t, len(candidates))
	layout, err := rollout.Waves(candidates, s, "r")
	if err != nil {
		t.Skip("the strategy is refused")
	}
	m.plan(rollout.Filled(s), layout)
	return m
}

func (m *model) candidate(id string) rollout.Candidate {
	m.rack[id] = fmt.Sprint("rack", rapid.IntRange(0, 3).Draw(m.T, "rack"))
	return rollout.Candidate{
		ServerID: id, Stages: someStages(m.T), Owed: rapid.IntRange(0, 9).Draw(m.T, "owed") == 0,
		Fields: map[string]string{
			"label.rack": m.rack[id], "platform": rapid.SampledFrom([]string{"amd64", "arm64"}).Draw(m.T, "platform"),
		},
	}
}

func someStrategy(t *rapid.T, servers int) *rolloutv1.Strategy {
	seconds := func(name string) *durationpb.Duration {
		return durationpb.New(time.Duration(rapid.SampledFrom([]int{0, 0, 30, 300}).Draw(t, name)) * time.Second)
	}
	number := func(name string, values ...uint32) uint32 { return rapid.SampledFrom(values).Draw(t, name) }
	s := &rolloutv1.Strategy{
		Soak: seconds("soak"), Approve: number("approve", 0, 0, 0, 1) == 1,
		ApproveByOther: number("approve by other", 0, 0, 0, 1) == 1,
		SuccessPercent: number("success", 0, 50, 90),
		Concurrency:    number("concurrency", 0, 1, 3), ComparePermille: number("compare", 0, 1, 100),
		DonePercent: number("done", 0, 50, 100), DoneAfter: seconds("done after"), Silence: seconds("silence"),
		Emergency: number("emergency", 0, 0, 0, 1) == 1,
		MaxBroken: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: number("max broken", 0, 1, 3, 100)}},
	}
	if rapid.Bool().Draw(t, "spread") {
		s.Spread = "label.rack"
	}
	if n := number("canaries", 0, 1, 2, 3); n > 0 && int(n) <= servers {
		s.Stages = append(s.Stages, &rolloutv1.Stage{Size: &rolloutv1.Stage_Canaries{Canaries: n}})
	}
	for _, p := range rapid.SampledFrom([][]uint32{nil, {10, 50}, {50}, {100}}).Draw(t, "percent") {
		stage := &rolloutv1.Stage{Size: &rolloutv1.Stage_Percent{Percent: p}}
		if number("conditions", 0, 0, 1) == 1 {
			stage.Of = group()
		}
		s.Stages = append(s.Stages, stage)
	}
	if number("group", 0, 0, 1) == 1 {
		s.Stages = slices.Insert(s.Stages, int(number("place", 0, uint32(len(s.Stages)))),
			&rolloutv1.Stage{Of: group()})
	}
	if n := number("keep", 0, 0, 1, 2); n > 0 {
		s.Keep = []*rolloutv1.Keep{{
			Field: "label.rack", Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: n}},
		}}
	}
	return s
}

// group has conditions that the model's servers meet or not by their candidates' stages.
func group() *rolloutv1.Group {
	return &rolloutv1.Group{Where: []*rolloutv1.Match{{
		Field: "label.ring", Relation: rolloutv1.Relation_RELATION_IN, Values: []string{"0"},
	}}}
}

// someStages returns the stages whose conditions a server meets, of the first five.
func someStages(t *rapid.T) (out []uint32) {
	for n := range uint32(5) {
		if rapid.Bool().Draw(t, "meets") {
			out = append(out, n+1)
		}
	}
	return out
}

// plan records the plan in two parts.
func (m *model) plan(s *rolloutv1.Strategy, l rollout.Layout) {
	s.Stages = l.Stages
	if rapid.IntRange(0, 3).Draw(m.T, "starts") == 0 {
		m.start = m.now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(m.T, "ahead")) * time.Second)
	}
	half := len(l.Placements) / 2
	for n, part := range [][]rollout.Placement{l.Placements[:half], l.Placements[half:]} {
		p := &rolloutv1.Planned{Part: uint32(n) + 1, Parts: 2, Strategy: s, Waves: l.Waves, Owed: l.Owed}
		if !m.start.IsZero() {
			p.StartAt = timestamppb.New(m.start)
		}
		for _, c := range part {
			p.Targets = append(p.Targets, m.target(c.ServerID, c.Wave))
		}
		m.record(p)
	}
}

func (m *model) target(server string, wave uint32) *rolloutv1.Target {
	t := &rolloutv1.Target{ServerId: server, Wave: wave, Changes: []*rolloutv1.Change{{Agent: "web"}}}
	if rapid.Bool().Draw(m.T, "two changes") {
		t.Changes = append(t.Changes, &rolloutv1.Change{Agent: "db"})
		if rapid.Bool().Draw(m.T, "in steps") {
			t.Changes[0].Step, t.Changes[1].Step = 1, 2
		}
	}
	return t
}

// record appends a fact of the rollout to the ledger, of the actor who started it.
func (m *model) record(body proto.Message) { m.recordBy("ann", body) }

func (m *model) recordBy(actor string, body proto.Message) {
	m.key++
	m.log = append(m.log, entry{fact: ledger.Fact{
		Noun: ledger.Rollout, Key: "r", Body: body, At: m.now, Actor: actor, Sequence: uint64(len(m.log) + 1),
	}})
}

func (m *model) happen(server string, e rollout.Event) {
	e.At = m.now
	m.log = append(m.log, entry{server: server, event: e})
}

// fold folds the next entries of the ledger.
func (m *model) fold(e *engine, n int) {
	for _, x := range m.log[e.position:min(len(m.log), e.position+n)] {
		e.position++
		if x.server == "" {
			e.key++
			if !e.book.Fold(x.fact) {
				m.Fatalf("%s does not fit: %v", x.fact.Name(), e.book.Rollout)
			}
			if _, ok := x.fact.Body.(*rolloutv1.Resumed); ok {
				for t := range e.book.Targets() {
					e.forgiven[t.ServerId] = t.State == broken
				}
			}
			continue
		}
		e.fleet(x)
	}
}

// fleet folds what happened to a server.
func (e *engine) fleet(x entry) {
	switch x.event.Kind {
	case rollout.Away:
		e.offline[x.server] = true
	case rollout.Back:
		delete(e.offline, x.server)
	case rollout.Unhealthy:
		e.unhealthy[x.server] = true
	}
	e.book.Apply(x.server, x.event)
	if t := e.book.Target(x.server); t != nil && t.State != broken {
		delete(e.forgiven, x.server)
	}
}

func (m *model) works(e *engine, server string) bool {
	t := e.book.Target(server)
	return t != nil && !e.offline[server] && !e.unhealthy[server] && t.State != reached && t.State != gone
}

func (m *model) working(e *engine, rack string) (working, all int) {
	for t := range e.book.Targets() {
		if m.rack[t.ServerId] == rack && t.State != gone {
			if all++; m.works(e, t.ServerId) {
				working++
			}
		}
	}
	return working, all
}

// ask returns what an engine decides at a time.
func (m *model) ask(e *engine, at time.Time) rollout.Decision {
	input := e.book.Input(at)
	input.Field = func(server, _ string) string { return m.rack[server] }
	input.Closed = func(server string) (time.Time, string) { return m.closed(server, at) }
	input.Works = func(server string) bool { return m.works(e, server) }
	input.Working = func(_, value string) (int, int) { return m.working(e, value) }
	input.Standing = func(server string) []rollout.Standing { return m.standingOf(e, server) }
	return rollout.Decide(input)
}

// standingOf returns the keep budget of a server's environment, to which all racks belong.
func (m *model) standingOf(e *engine, server string) []rollout.Standing {
	if m.standing == 0 {
		return nil
	}
	working, all := m.working(e, m.rack[server])
	return []rollout.Standing{{
		Keep: &rolloutv1.Keep{
			Field: "label.rack", Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: m.standing}},
		},
		Group: keep.Group{Environment: "prod", Field: "label.rack", Value: m.rack[server]},
		Count: keep.Count{All: all, Working: working},
	}}
}

// closed returns until when the environment of a server is closed: that of every other rack, half of the time.
func (m *model) closed(server string, at time.Time) (time.Time, string) {
	const period = 100
	if rack := m.rack[server]; !m.closes || rack == "rack0" || rack == "rack2" || at.Unix()/period%2 == 0 {
		return time.Time{}, ""
	}
	return time.Unix((at.Unix()/period+1)*period, 0), "it is closed"
}

// decide lets an engine decide and record what it decided. It reports whether there was something to do.
func (m *model) decide(e *engine) (rollout.Decision, bool) {
	if e.book.Rollout == nil {
		return rollout.Decision{}, false
	}
	d := m.ask(e, m.now)
	if !d.Acts() || e.key != m.key { // the guard: a fact of the rollout that the engine did not fold
		return d, d.Acts()
	}
	m.checkDecision(e, d)
	m.decisions++
	basis := &rolloutv1.Basis{Sequence: uint64(e.position), At: timestamppb.New(m.now)}
	switch {
	case d.Open > 0:
		m.record(&rolloutv1.Opened{Wave: d.Open, Basis: basis})
	case d.Pass > 0:
		m.record(&rolloutv1.Passed{Wave: d.Pass, Basis: basis})
	case len(d.Release) > 0:
		m.record(&rolloutv1.Released{Wave: d.Wave, ServerIds: d.Release, Basis: basis, Step: d.Step})
		for _, id := range d.Release {
			if d.Step == 0 {
				m.released[id]++
			}
		}
		m.underWay = append(m.underWay, d.Release...)
	case len(d.Silence) > 0:
		m.record(&rolloutv1.Silenced{ServerIds: d.Silence, Basis: basis})
	case d.Halt != nil:
		m.record(&rolloutv1.Halted{Wave: d.Wave, Reason: d.Halt, Basis: basis})
	case d.Succeed:
		m.record(&rolloutv1.Succeeded{Owed: d.Owed, Basis: basis})
	}
	return d, true
}

// end ends the next change of a server that is under way; the outcome may come twice.
func (m *model) end(i int, ok bool) {
	id := m.underWay[i]
	n := 1
	if t := m.current().Target(id); t != nil {
		n = len(t.Changes)
		if rollout.StepOf(t.Changes[m.ends[id]]) < rollout.StepOf(t.Changes[n-1]) {
			n = m.ends[id] + 1 // the next step begins later, if it does
		}
	}
	e := rollout.Event{Kind: rollout.Ended, Change: m.ends[id], OK: ok}
	if ok && rapid.Bool().Draw(m.T, "awaits an observation") {
		e.Generation = 7
		m.unseen = append(m.unseen, entry{server: id, event: rollout.Event{
			Kind: rollout.Seen, Change: e.Change, Generation: 7, Agent: "web", OK: true,
		}})
	}
	m.happen(id, e)
	if rapid.IntRange(0, 4).Draw(m.T, "twice") == 0 {
		m.happen(id, e)
	}
	if m.ends[id]++; !ok || m.ends[id] == n {
		m.underWay = slices.Delete(m.underWay, i, i+1)
	}
}

// see lets an awaited observation come; one of an older generation before it has no effect.
func (m *model) see(i int, ok bool) {
	x := m.unseen[i]
	m.unseen = slices.Delete(m.unseen, i, i+1)
	if rapid.IntRange(0, 4).Draw(m.T, "stale") == 0 {
		stale := x.event
		stale.Generation, stale.OK = 6, false
		m.happen(x.server, stale)
	}
	x.event.OK = ok
	m.happen(x.server, x.event)
}

// current returns a book of the whole ledger.
func (m *model) current() *rollout.Book {
	e := newEngine()
	m.fold(e, len(m.log))
	return e.book
}
