package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	registryRounds = 3
	busPaused      = 7 * time.Second
	roundsLoad     = 3 * time.Second // before and behind each pause
)

// load publishes refreshes and configurations until ctx is done, and notes which were acknowledged.
func (w *world) load(ctx context.Context, conn *bus.Conn, every time.Duration) (sent int, acknowledged []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			wg.Wait()
			return n, acknowledged
		case <-tick.C:
		}
		verb, json := topology.VerbRefresh, `{"refresh":{"on":{"all":true}}}`
		if n%3 == 0 {
			verb = topology.VerbConfigure
			json = fmt.Sprintf(`{"configure":{"agent":"beacon","set":{"level":"%d"},"on":{"all":true}}}`, n)
		}
		id := ident.New()
		wg.Go(func() {
			once, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			_, err := conn.PublishDurable(once, bus.Durable{
				Subject: topology.IntentSubject(verb, conn.Name(), id), ID: id, Type: "application/json", Data: []byte(json),
			})
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				acknowledged = append(acknowledged, id)
			}
		})
	}
}

// Two registries get the same reports and share the intents. While the bus stands still
// and one of them is killed, each is in the middle of batches whose outcome it does not
// know, and of facts that the other one recorded. Close checks that each acknowledged
// intent is decided exactly once.
func TestTwoRegistriesDecideEachIntentOnce(t *testing.T) {
	w := newWorld(t, fleet.Options{Apart: true}, "alpha", "bravo", "charlie", "delta")
	second := w.Replica(topology.UserRegistry)
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	w.ok("install", "beacon@1.0.0", "--on", "all")
	w.converges("1.0.0")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	conn := w.operator()
	type count struct {
		sent         int
		acknowledged []string
	}
	counted := make(chan count, 1)
	go func() {
		sent, acknowledged := w.load(ctx, conn, 300*time.Millisecond)
		counted <- count{sent, acknowledged}
	}()
	victims := []*fleet.Process{w.Services[topology.UserRegistry], second}
	for round := range registryRounds {
		time.Sleep(roundsLoad)
		pauseBus(t, w, victims[round%2])
		time.Sleep(roundsLoad)
	}
	stop()
	c := <-counted
	for _, id := range c.acknowledged {
		w.Acknowledged(id)
	}
	t.Logf("%d of %d intents acknowledged", len(c.acknowledged), c.sent)
	if len(c.acknowledged) < c.sent/2 {
		t.Errorf("only %d of %d intents were acknowledged", len(c.acknowledged), c.sent)
	}
	w.holds()
	w.converges("1.0.0")
}

// pauseBus stops the bus for a while, kills a registry meanwhile, and starts it again.
func pauseBus(t *testing.T, w *world, registry *fleet.Process) {
	t.Helper()
	if err := w.Garrisond.Pause(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(busPaused / 2)
	if err := registry.Kill(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(busPaused / 2)
	if err := w.Garrisond.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := registry.Start(); err != nil {
		t.Fatal(err)
	}
}
