package facts

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestAnActorHasTwoReadsAtATimeAndAllActorsEight(t *testing.T) {
	t.Parallel()
	g := newGate(time.Now)
	leave, err := g.enter("ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.enter("ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := g.enter("ann"); fault.RefusalOf(err).GetCode() != "BUSY" || !fault.Is(err, fault.Unavailable) {
		t.Errorf("a third read: %v", err)
	}
	leave(1)
	for n := range ReadsAtOnce - 1 {
		if _, err := g.enter(fmt.Sprint("bob", n)); err != nil {
			t.Errorf("read %d: %v", n, err)
		}
	}
	if _, err := g.enter("cleo"); fault.RefusalOf(err).GetCode() != "BUSY" {
		t.Errorf("a ninth read: %v", err)
	}
}

func TestAnActorReadsSoMuchASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Now)
		read, start := 0, time.Now()
		for time.Since(start) < 10*time.Second {
			leave, err := g.enter("ann")
			if err != nil {
				time.Sleep(time.Duration(fault.RefusalOf(err).GetRetryAfterMs()) * time.Millisecond)
				continue
			}
			leave(MostBytes)
			read += MostBytes
		}
		if most := burst + 11*BytesPerSecond; read > most || read < 10*BytesPerSecond {
			t.Errorf("read %d MiB in 10 s, want %d MiB a second and a burst", read>>20, BytesPerSecond>>20)
		}
		if leave, err := g.enter("bob"); err != nil {
			t.Errorf("another actor: %v", err)
		} else {
			leave(0)
		}
	})
}

func TestActorsWithoutADebtAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Now)
		for n := range 3 * mostActors {
			leave, err := g.enter(fmt.Sprint(n))
			if err != nil {
				t.Fatal(err)
			}
			leave(1)
			time.Sleep(time.Millisecond)
		}
		if len(g.actors) > mostActors {
			t.Errorf("%d actors are remembered", len(g.actors))
		}
	})
}

// A read that passes over large facts moves them all the same: it is charged for them, up to a bound.
func TestAReadOwesWhatItPassedOverAndHasABound(t *testing.T) {
	t.Parallel()
	const large, many = 900 << 10, 12
	b := bustest.Start(t)
	w := b.Writer(t, b.Dial(t, "writer"))
	for n := range many + 2 {
		f := ledger.Fact{Noun: ledger.Server, Key: ident.New(), Body: &serverv1.Online{
			BootId: string(bytes.Repeat([]byte("x"), large)),
		}}
		if n >= many {
			f = ledger.Fact{Noun: ledger.Task, Key: ident.New(), Body: &taskv1.Started{}}
		}
		f.ID, f.At, f.Actor, f.Source = ident.New(), time.Now(), "bob", f.Noun.Writer()
		if _, err := w.Append(t.Context(), ledger.Free(f)); err != nil {
			t.Fatal(err)
		}
	}
	stands := time.Now()
	r := &reader{conn: b.Dial(t, ledger.Registry), gate: newGate(func() time.Time { return stands })}
	for _, c := range []struct {
		actor        string
		limit        uint32
		below        uint64
		facts        int
		next         uint64
		least, bound int // bytes
	}{
		{"all", 0, many + 3, 2, 0, mostNear, mostNear + 2*large},
		{"one", 1, many + 3, 1, many + 2, mostNear, mostNear + 2*large},
		{"below", 0, many + 2, 1, 0, mostNear, mostNear + 2*large},
		{"none", 0, many + 1, 0, 0, mostNear, mostNear + 2*large},
		{"few", 0, 3, 0, 0, 2 * large, 4 * large},
	} {
		q := &registryv1.ReadFactsRequest{Noun: "task", Limit: c.limit, Below: c.below}
		answer, err := r.read(t.Context(), bus.Caller{Actor: c.actor}, q)
		if err != nil || len(answer.Facts) != c.facts || answer.Next != c.next {
			t.Errorf("%s: %d facts, next %d, %v; want %d and %d",
				c.actor, len(answer.GetFacts()), answer.GetNext(), err, c.facts, c.next)
		}
		if owes := int(r.gate.actors[c.actor].debt); owes < c.least || owes > c.bound {
			t.Errorf("%s owes %d bytes; want %d to %d", c.actor, owes, c.least, c.bound)
		}
	}
}
