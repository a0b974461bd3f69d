package rollout_test

import (
	"slices"

	"google.golang.org/protobuf/proto"

	noun "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// tally counts the targets of a wave, or with 0 of all waves, one by one, without the counts of the record.
func tally(b *rollout.Book, wave uint32, states ...rolloutv1.TargetState) (n int) {
	for t := range b.Targets() {
		for _, s := range states {
			if t.State == s && t.Wave > 0 && (wave == 0 || t.Wave == wave) {
				n++
			}
		}
	}
	return n
}

// checkDecision checks a decision that is recorded, on the view that it was made on.
func (m *model) checkDecision(e *engine, d rollout.Decision) {
	r := e.book.Rollout
	newly, limit := 0, int(r.Strategy.MaxBroken.GetServers())
	for t := range e.book.Targets() {
		if t.Wave > 0 && t.State == broken && !e.forgiven[t.ServerId] {
			newly++
		}
	}
	running := r.State == rolloutv1.State_STATE_RUNNING
	if !running && (r.State != rolloutv1.State_STATE_SUCCEEDED || len(d.Release) == 0) {
		m.Fatalf("decided %+v in state %s", d, r.State)
	}
	if (d.Open > 0 || d.Pass > 0) && newly > limit {
		m.Fatalf("decided %+v although %d servers are newly broken; %d may be", d, newly, limit)
	}
	m.checkRelease(e, d, newly, limit)
	if d.Open > 1 && noun.Wave(r, d.Open-1).PassedAt == nil {
		m.Fatalf("wave %d opens before the one before it passed", d.Open)
	}
	if d.Open > 0 && !r.Strategy.Emergency && r.Strategy.Approve && d.Open > 1 && r.Waves[d.Open-1].ApprovedBy == "" {
		m.Fatalf("wave %d opens without an approval", d.Open)
	}
	if d.Open > 0 && r.Strategy.ApproveByOther && !r.Strategy.Emergency && d.Open > 1 &&
		r.Waves[d.Open-1].ApprovedBy != "bob" {
		m.Fatalf("wave %d opens with an approval of %q", d.Open, r.Waves[d.Open-1].ApprovedBy)
	}
	if m.now.Before(m.start) && (len(r.Waves) == 0 || r.Waves[0].OpenedAt == nil) {
		m.Fatalf("decided %+v before its start", d)
	}
	if d.Pass > 0 {
		m.checkGate(e, d.Pass)
	}
}

func (m *model) checkRelease(e *engine, d rollout.Decision, newly, limit int) {
	r, b := e.book.Rollout, e.book
	if len(d.Release) > 0 && r.State == rolloutv1.State_STATE_RUNNING && newly > limit {
		m.Fatalf("released %v although %d servers are newly broken; %d may be", d.Release, newly, limit)
	}
	under := 0
	for t := range e.book.Targets() {
		if t.State == reached {
			under++
		}
	}
	if c := int(r.Strategy.Concurrency); c > 0 && len(d.Release) > 0 && d.Step == 0 && under+len(d.Release) > c {
		m.Fatalf("released %d beside %d; %d is the limit", len(d.Release), under, c)
	}
	if len(d.Release) > 0 && d.Step == 0 && !r.Strategy.Emergency {
		proven := tally(b, d.Wave, succeeded)
		if d.Wave == 0 || noun.Wave(r, d.Wave).PassedAt != nil { // an owed one
			proven = tally(b, 0, succeeded) + m.owedIn(b, succeeded)
		}
		if most := min(2+proven, max(1, limit-newly)); under+len(d.Release) > most {
			m.Fatalf("released %d beside %d; %d succeeded and %d more may break", len(d.Release), under, proven,
				limit-newly)
		}
	}
	for _, id := range d.Release {
		if _, why := m.closed(id, m.now); why != "" && !r.Strategy.Emergency {
			m.Fatalf("%s is released while it is closed", id)
		}
	}
	if d.Step > 0 {
		m.checkStep(e, d)
		return
	}
	taken := map[string]int{}
	for _, id := range d.Release {
		t := e.book.Target(id)
		if m.released[id] > 0 {
			m.Fatalf("%s is released again", id)
		}
		if t.Wave != d.Wave || t.Wave > 0 && noun.Wave(r, t.Wave).OpenedAt == nil {
			m.Fatalf("%s of wave %d is released in wave %d: %v", id, t.Wave, d.Wave, r)
		}
		if e.offline[id] {
			m.Fatalf("%s is released while it is offline", id)
		}
		if m.works(e, id) {
			taken[m.rack[id]]++
		}
	}
	for rack, n := range taken {
		if working, _ := m.working(e, rack); working-n < int(m.standing) {
			m.Fatalf("%d of %d working servers of %s are released; the environment keeps %d", n, working, rack,
				m.standing)
		}
	}
	for _, k := range r.Strategy.Keep {
		for rack, n := range taken {
			if working, _ := m.working(e, rack); working-n < int(k.Working.GetServers()) {
				m.Fatalf("%d of %d working servers of %s are released; %v must stay", n, working, rack, k.Working)
			}
		}
	}
}

// owedIn counts the targets that were owed from the start.
func (m *model) owedIn(b *rollout.Book, s rolloutv1.TargetState) (n int) {
	for t := range b.Targets() {
		if t.State == s && t.Wave == 0 {
			n++
		}
	}
	return n
}

// checkStep checks that a later step begins only where every change of the step before succeeded.
func (m *model) checkStep(e *engine, d rollout.Decision) {
	for _, id := range d.Release {
		t := e.book.Target(id)
		if t.State != reached || t.Step+1 != d.Step || t.Awaited[0] > 0 || !slices.Equal(t.Done, []bool{true, false}) {
			m.Fatalf("step %d of %s begins: %v", d.Step, id, t)
		}
	}
}

// checkGate checks that a wave that passes showed what it must.
func (m *model) checkGate(e *engine, wave uint32) {
	r, b := e.book.Rollout, e.book
	w := noun.Wave(r, wave)
	left := tally(b, wave, pending, reached)
	good, all := tally(b, wave, succeeded), tally(b, wave, pending, reached, succeeded, broken)-int(w.Forgiven)
	total := tally(b, 0, pending, reached, succeeded, broken, owed)
	done := tally(b, 0, succeeded)*100 >= int(r.Strategy.DonePercent)*total
	early := r.Strategy.SuccessPercent > 0 || done && wave == uint32(len(r.Waves)) && r.Strategy.DonePercent < 100
	if left > 0 && !early {
		m.Fatalf("wave %d passes while %d servers are left", wave, left)
	}
	if good*100 < int(r.Strategy.SuccessPercent)*all && !(done && wave == uint32(len(r.Waves))) {
		m.Fatalf("wave %d passes with %d of %d servers; %d %% is the least: %v", wave, good, all,
			r.Strategy.SuccessPercent, r)
	}
	soaked := w.OpenedAt.AsTime()
	for t := range b.Targets() {
		if t.Wave == wave && t.State == succeeded && t.Since.AsTime().After(soaked) && left == 0 && !early {
			soaked = t.Since.AsTime()
		}
	}
	if soak := r.Strategy.Soak.AsDuration(); !r.Strategy.Emergency && m.now.Sub(soaked) < soak {
		m.Fatalf("wave %d passes %s after its last server; %s is the soak", wave, m.now.Sub(soaked), soak)
	}
}

// checkSeen checks that no server succeeded before its agents were observed after their changes.
func (m *model) checkSeen(b *rollout.Book) {
	for _, x := range m.unseen {
		if t := b.Target(x.server); t != nil && t.State == succeeded {
			m.Fatalf("%s succeeded, and change %d of it was not observed: %v", x.server, x.event.Change, t)
		}
	}
}

// checkCounts checks the counts of the record, and that what two engines folded is the same.
func (m *model) checkCounts() {
	for _, e := range m.engines {
		m.fold(e, len(m.log))
	}
	b := m.engines[0].book
	if !proto.Equal(b.Rollout, m.engines[1].book.Rollout) {
		m.Fatalf("the engines folded\n%v\n%v", b.Rollout, m.engines[1].book.Rollout)
	}
	m.checkSeen(b)
	for n, w := range b.Rollout.Waves {
		for _, s := range []rolloutv1.TargetState{pending, reached, succeeded, broken, leftOut, owed, gone} {
			if have, want := int(w.Counts[uint32(s)]), tally(b, uint32(n)+1, s); have != want {
				m.Fatalf("wave %d counts %d servers %s; there are %d", n+1, have, s, want)
			}
		}
	}
}

// checkUndo checks that an undo covers every server that was changed and still exists.
func (m *model) checkUndo() {
	b := m.current()
	for id := range m.released {
		if t := b.Target(id); !rollout.Touched(t) && t.State != gone {
			m.Fatalf("%s was released and an undo leaves it out: %v", id, t)
		}
	}
	for t := range b.Targets() {
		if rollout.Touched(t) && m.released[t.ServerId] != 1 {
			m.Fatalf("%s was released %d times, and is %s", t.ServerId, m.released[t.ServerId], t.State)
		}
	}
}
