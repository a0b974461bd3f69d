package changes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// An upgrade ends as usual whichever process is killed in the middle of it, and no intent
// is lost or decided twice.
func TestAnUpgradeEndsWhateverIsKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Apart: true}, "alpha", "bravo", "charlie")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")

	victims := map[string]*rig.Process{"the bus": w.Garrisond, "an executor": w.Servers[1].Executor}
	for _, name := range topology.Services {
		victims[name] = w.Services[name]
	}
	want := []string{"2.0.0", "1.0.0"}
	round := 0
	for name, victim := range victims {
		for _, after := range []time.Duration{0, 30 * time.Millisecond, 400 * time.Millisecond} {
			version := want[round%2]
			round++
			t.Run(fmt.Sprintf("%s after %v", name, after), func(t *testing.T) {
				w.OK("up", "beacon@"+version, "--on", "all", "--yes", "--detach")
				time.Sleep(after) // not a wait: each pause hits another moment of the upgrade
				scenario.Must(t, victim.Kill())
				scenario.Must(t, victim.Start())
				w.Converges(version)
			})
		}
	}
	w.Holds()
}

// An acknowledged intent is decided although the registry was dead when it was published.
func TestAnIntentWaitsForTheRegistry(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Apart: true}, "alpha")}
	scenario.Must(t, w.Services[topology.UserRegistry].Kill())
	id := w.publish(`{"install":{"agent":"beacon","image":{"version":"1.0.0"},"on":{"all":true}}}`,
		topology.VerbInstall)
	scenario.Must(t, w.Services[topology.UserRegistry].Start())
	w.Converges("1.0.0")
	w.OK("intent", "show", id)
	w.Holds()
}

// Two dispatchers never do anything twice, and one takes over when the other is killed.
func TestTwoDispatchersNeverDoAThingTwice(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Apart: true}, "alpha", "bravo", "charlie")}
	second := w.Replica(topology.UserDispatcher)
	scenario.Must(t, second.Start())
	w.OK("install", "beacon@1.0.0", "--on", "all")
	for i := range 6 {
		w.OK("up", "beacon@"+[]string{"2.0.0", "1.0.0"}[i%2], "--on", "all", "--yes")
	}
	scenario.Must(t, w.Services[topology.UserDispatcher].Kill())
	w.OK("up", "beacon@2.0.0", "--on", "all", "--yes")
	w.Converges("2.0.0")
	w.Holds()
	scenario.Must(t, second.Stop())
}
