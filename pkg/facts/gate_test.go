package facts

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
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
