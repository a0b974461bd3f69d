package faults_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/load"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	registryRounds = 2 // one for each registry
	busPaused      = 9 * time.Second
	roundsLoad     = 2 * time.Second // before and behind each pause
)

// loadIntent returns a refresh of every server, or, one time of three, a configuration.
func loadIntent(n int) *intentv1.Intent {
	on := &intentv1.Selector{All: true}
	if n%3 > 0 {
		return &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{On: on}}}
	}
	set := map[string]string{"level": strconv.Itoa(n)}
	configure := &intentv1.Configure{Agent: "beacon", Set: set, On: on}
	return &intentv1.Intent{Ask: &intentv1.Intent_Configure{Configure: configure}}
}

// Two registries receive the same reports and share the intents. While the bus is paused
// and one registry is killed, each is in the middle of batches with an unknown outcome and
// of facts that the other one recorded. Close checks that each acknowledged intent is
// decided exactly once.
func TestTwoRegistriesDecideEachIntentOnce(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Apart: true}, "alpha", "bravo", "charlie", "delta")}
	second := w.Replica(topology.UserRegistry)
	scenario.Must(t, second.Start())
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	c, err := w.Client(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w.Intents.Client = c
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var published sync.WaitGroup
	published.Go(func() {
		load.Every(ctx, 150*time.Millisecond, func(n int) {
			published.Go(func() { w.Intents.Publish(scenario.Within(t, time.Minute), loadIntent(n)) })
		})
	})
	victims := []*rig.Process{w.Services[topology.UserRegistry], second}
	for round := range registryRounds {
		time.Sleep(roundsLoad)
		pauseBus(t, w, victims[round%2])
		time.Sleep(roundsLoad)
	}
	stop()
	published.Wait()
	sent, acknowledged := w.Intents.Counts()
	t.Logf("%d of %d intents acknowledged", len(acknowledged), sent)
	if len(acknowledged) < sent/2 {
		t.Errorf("only %d of %d intents were acknowledged", len(acknowledged), sent)
	}
	w.Holds()
	w.Converges("1.0.0")
}

// pauseBus pauses the bus for a while, and kills a registry meanwhile and starts it again.
func pauseBus(t *testing.T, w *world, registry *rig.Process) {
	t.Helper()
	scenario.Must(t, w.Garrisond.Pause())
	time.Sleep(busPaused / 2)
	scenario.Must(t, registry.Kill())
	time.Sleep(busPaused / 2)
	scenario.Must(t, w.Garrisond.Resume())
	scenario.Must(t, registry.Start())
}
