package bus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// modelAppend is one call of Append and its answer.
type modelAppend struct {
	drafts []ledger.Draft
	again  bool   // the caller says the same once more
	known  uint64 // the sequence at which its first fact was stored before
	last   uint64
	err    error
}

// Whatever the bus answers, loses, delays or stored for others: Append returns success only
// for facts that are all stored next to each other, and a conflict only when the writer
// stored none of them; no fact is stored twice, none beside its guard, none without the rest
// of its unit. Without faults nothing is left open.
func TestNothingIsAnsweredAsStoredThatIsNot(t *testing.T) {
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		t.Run(fmt.Sprint(w), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for n := w; n < modelHistories && !t.Failed(); n += workers {
					modelHistory(t, uint64(n))
				}
			})
		})
	}
}

func modelHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &modelStream{
		rng: rand.New(
			rand.NewPCG(seed, 2)), faulty: rng.IntN(4) > 0, rivals: rng.IntN(2) == 0, idFirst: rng.IntN(2) == 0,
	}
	appends := modelAppends(rng, s)
	for range rng.IntN(4) { // the rivals' history
		if len(s.rivalFact) > 0 {
			s.pushOnce(s.rivalFact[rng.IntN(len(s.rivalFact))])
		}
	}
	w := newWriter(s)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.Run(ctx) }()
	sideBySide(len(appends), len(appends), func(i int) {
		a := appends[i]
		if a.again {
			time.Sleep(time.Duration(i) * 5 * time.Second)
		}
		if !a.again {
			time.Sleep(time.Duration(i) * time.Millisecond)
			s.setGuards(a.drafts)
		}
		a.known = s.sequenceOf(a.drafts[0].ID)
		a.last, a.err = w.Append(ctx, a.drafts...)
	})
	stop()
	<-ended
	for len(s.late) > 0 {
		s.meanwhile()
	}
	if broken := modelBroken(s, appends); broken != "" {
		t.Errorf("history %d: %s\n%s", seed, broken, describe(s, appends))
	}
}

// modelAppends draws what is to be recorded, over few keys so that units meet.
func modelAppends(rng *rand.Rand, s *modelStream) []*modelAppend {
	var appends []*modelAppend
	for u := range 1 + rng.IntN(5) {
		a := &modelAppend{}
		for i := range 1 + rng.IntN(3) {
			f := ledger.Fact{
				Noun: ledger.Task, Key: string(rune('a' + rng.IntN(4))), Body: &taskv1.Queued{},
				ID: fmt.Sprintf("%d-%d", u, i),
				At: time.Unix(1, 0), Source: ledger.Dispatcher, Actor: "test",
			}
			d := ledger.Free(f)
			if rng.IntN(2) == 0 {
				d = ledger.OnKey(f, 0)
			}
			a.drafts = append(a.drafts, d)
			s.rivalFact = append(s.rivalFact, modelMessage{subject: f.Subject(), id: f.ID})
		}
		appends = append(appends, a)
		if rng.IntN(5) == 0 {
			appends = append(appends, &modelAppend{drafts: a.drafts, again: true})
		}
	}
	return appends
}

// modelBroken returns what of a history does not hold.
func modelBroken(s *modelStream, appends []*modelAppend) string {
	at := map[string]uint64{}
	for i, m := range s.stored {
		// After the window only a guard from before a fact keeps it from being recorded again.
		if n := at[m.id]; n > 0 && (m.guard != "" && m.expected < n || m.at.Sub(s.stored[n-1].at) < modelWindow) {
			return fmt.Sprintf("fact %s is stored twice", m.id)
		}
		at[m.id] = uint64(i + 1)
	}
	for _, a := range appends {
		if broken := a.broken(s, at); broken != "" {
			return broken
		}
	}
	return ""
}

// together reports whether facts are stored in order and next to each other.
func together(sequences []uint64) bool {
	first := sequences[0]
	for i := range sequences {
		if first == 0 || sequences[i]-first != uint64(i) {
			return false
		}
	}
	return true
}

func (a *modelAppend) broken(s *modelStream, at map[string]uint64) string {
	var stored, ours []uint64
	for _, d := range a.drafts {
		stored = append(stored, at[d.ID])
		if n := at[d.ID]; n > 0 && s.stored[n-1].ours {
			ours = append(ours, n)
		}
	}
	id, last := a.drafts[0].ID, stored[len(stored)-1]
	byWriter := len(ours) == len(a.drafts)
	switch {
	case a.err == nil && (!together(stored) || a.last != last):
		return fmt.Sprintf("unit of %s: stored at %v, answered %d", id, stored, a.last)
	case len(ours) > 0 && !byWriter, byWriter && !together(stored):
		return fmt.Sprintf("unit of %s was split: %v", id, stored)
	case fault.Is(a.err, fault.Conflict) && byWriter:
		return fmt.Sprintf("unit of %s: stored at %v, answered with a conflict", id, stored)
	case !s.faulty && a.err != nil && !fault.Is(a.err, fault.Conflict):
		return fmt.Sprintf("unit of %s: answered %v without a fault", id, a.err)
	case !s.faulty && a.err != nil && len(a.drafts) == 1 && a.known > 0:
		return fmt.Sprintf("lone fact %s is stored at %d, answered %v", id, last, a.err)
	}
	for _, d := range a.drafts {
		if byWriter && d.Guard.Subject != "" && s.lastBefore(d.Guard.Subject, int(stored[0])-1) != d.Guard.Sequence {
			return fmt.Sprintf("unit of %s is stored at %v although the guard of %s did not hold", id, stored, d.ID)
		}
	}
	return ""
}

func describe(s *modelStream, appends []*modelAppend) string {
	var b strings.Builder
	fmt.Fprintf(&b, "faulty %v, rivals %v, id first %v\n", s.faulty, s.rivals, s.idFirst)
	for i, m := range s.stored {
		fmt.Fprintf(&b, "%3d %s %s ours %v\n", i+1, m.subject, m.id, m.ours)
	}
	for _, a := range appends {
		for _, d := range a.drafts {
			fmt.Fprintf(&b, "  %s on %s guard %+v\n", d.ID, d.Subject(), d.Guard)
		}
		fmt.Fprintf(&b, "    again %v: %d, %v\n", a.again, a.last, a.err)
	}
	return b.String()
}
