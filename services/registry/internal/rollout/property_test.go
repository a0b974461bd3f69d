package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	noun "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

func TestEnginesThatDecideOnStaleViewsKeepThePromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			m.step()
		}
		m.checkCounts()
		m.finish()
		m.checkCounts()
		m.checkUndo()
		m.checkReplay()
	})
}

// step does one random thing.
func (m *model) step() {
	e := m.engines[rapid.IntRange(0, 1).Draw(m.T, "engine")]
	switch rapid.IntRange(0, 19).Draw(m.T, "step") {
	case 0, 1, 2:
		m.now = m.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(m.T, "seconds")) * time.Second)
	case 3:
		if rapid.IntRange(0, 9).Draw(m.T, "jump") == 0 {
			m.now = m.now.Add(24 * time.Hour)
		}
	case 4, 5, 6, 7:
		m.fold(e, rapid.IntRange(1, 20).Draw(m.T, "entries"))
	case 8, 9, 10, 11, 12:
		m.fold(e, rapid.SampledFrom([]int{0, 1, 1000, 1000, 1000}).Draw(m.T, "entries"))
		m.decide(e)
	case 13, 14, 15:
		if n := len(m.unseen); n > 0 && rapid.Bool().Draw(m.T, "observation") {
			m.see(rapid.IntRange(0, n-1).Draw(m.T, "which"), rapid.IntRange(0, 5).Draw(m.T, "health") > 0)
		} else if n := len(m.underWay); n > 0 {
			m.end(rapid.IntRange(0, n-1).Draw(m.T, "which"), rapid.IntRange(0, 5).Draw(m.T, "outcome") > 0)
		}
	case 16, 17:
		m.serverEvent()
	case 18:
		m.person()
	case 19:
		if rapid.Bool().Draw(m.T, "crash") { // the process is killed and folds again
			*e = *newEngine()
		} else {
			m.join()
		}
	}
}

func (m *model) serverEvent() {
	kinds := []rollout.EventKind{
		rollout.Away, rollout.Away, rollout.Back, rollout.Back, rollout.Gone, rollout.Unhealthy,
	}
	id := fmt.Sprint("s", rapid.IntRange(0, len(m.rack)-1).Draw(m.T, "server"))
	m.happen(id, rollout.Event{Kind: rapid.SampledFrom(kinds).Draw(m.T, "event"), Agent: "web"})
}

// person steers the rollout, as the ledger's end allows.
func (m *model) person() {
	r := m.current().Rollout
	body := rapid.SampledFrom([]proto.Message{
		&rolloutv1.Paused{Reason: "lunch"}, &rolloutv1.Resumed{}, &rolloutv1.Resumed{UntilWave: noun.Current(r)},
		&rolloutv1.Approved{Wave: noun.Current(r)}, &rolloutv1.Approved{Wave: noun.Current(r)}, &rolloutv1.Aborted{},
		&rolloutv1.Rejected{Wave: noun.Current(r)},
	}).Draw(m.T, "control")
	if _, abort := body.(*rolloutv1.Aborted); abort && rapid.IntRange(0, 3).Draw(m.T, "really") > 0 {
		return
	}
	m.recordIfFitBy(rapid.SampledFrom([]string{"ann", "bob"}).Draw(m.T, "actor"), body)
}

// join lets a server join the last wave, or one behind it, also once the rollout succeeded.
func (m *model) join() {
	m.joined++
	id := fmt.Sprint("s", len(m.rack))
	m.candidate(id)
	r := m.current().Rollout
	wave := uint32(len(r.Waves))
	if r.State == rolloutv1.State_STATE_SUCCEEDED || rapid.Bool().Draw(m.T, "behind") {
		wave++
	}
	m.recordIfFit(&rolloutv1.Extended{Targets: []*rolloutv1.Target{m.target(id, wave)}})
}

func (m *model) recordIfFit(body proto.Message) { m.recordIfFitBy("ann", body) }

func (m *model) recordIfFitBy(actor string, body proto.Message) {
	b := m.current()
	f := m.log[0].fact
	f.Body, f.Actor = body, actor
	if b.Fold(f) {
		m.recordBy(actor, body)
	}
}

// finish stops all events but the ends of what is under way, lets a person resume and approve whatever waits for that,
// and requires the rollout to end.
func (m *model) finish() {
	e := m.engines[0]
	for round := 0; ; round++ {
		if round > 2000 {
			m.Fatalf("the rollout does not end: %v", e.book.Rollout)
		}
		m.fold(e, len(m.log))
		r := e.book.Rollout
		switch d, acts := m.decide(e); {
		case acts:
		case len(m.underWay) > 0:
			m.end(0, true)
		case len(m.unseen) > 0:
			m.see(0, true)
		case noun.Life.End(r.State), r.State == rolloutv1.State_STATE_ABORTED:
			return
		case r.State == rolloutv1.State_STATE_SUCCEEDED:
			return
		case !d.Next.IsZero():
			m.now = d.Next
		case r.State != rolloutv1.State_STATE_RUNNING || r.UntilWave > 0 && noun.Current(r) > r.UntilWave:
			m.record(&rolloutv1.Resumed{})
		case noun.Current(r) > 0 && noun.Wave(r, noun.Current(r)).OpenedAt == nil:
			m.recordBy("bob", &rolloutv1.Approved{Wave: noun.Current(r)})
		case (len(r.Strategy.Keep) > 0 || m.standing > 0) && m.held(e):
			return // a keep budget holds back what is left, and says so
		default:
			m.Fatalf("the rollout waits for nothing: %q, %v", d.Waits, r)
		}
	}
}

// held reports whether every pending server of the waves that are open is held back by a keep budget.
func (m *model) held(e *engine) bool {
	need := int(m.standing)
	for _, k := range e.book.Rollout.Strategy.Keep {
		need = max(need, int(k.Working.GetServers()))
	}
	n := 0
	for t := range e.book.Targets() {
		if t.State != pending || noun.Wave(e.book.Rollout, t.Wave).OpenedAt == nil {
			continue
		}
		n++
		if working, _ := m.working(e, m.rack[t.ServerId]); !m.works(e, t.ServerId) || working > need {
			return false
		}
	}
	return n > 0
}
