package faults_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/e2e/simulated"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func TestTheLedgerSaysWhatThirtySimulatedServersDid(t *testing.T) {
	t.Parallel()
	f := scenario.Simulated(t, rig.Options{})
	const servers = 30
	_, s, err := simulated.Run(t.Context(), f, simulated.Options{
		Servers: servers, Within: 3 * time.Minute, Faulty: true, Flags: []string{
			"--seed", "7", "--duration", "100ms", "--failing", "0.1", "--slow", "0.1", "--flapping", "0.1",
			"--misleading", "0.1",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Joined != servers || !s.Checked || s.Tasks < servers || s.Compared != s.Tasks {
		t.Errorf("%+v; want %d servers, and each task compared", s, servers)
	}
}

func TestAnUpgradeOfSimulatedServersEndsInOrderAfterGarrisondIsKilledInItsMiddle(t *testing.T) {
	t.Parallel()
	f := scenario.Simulated(t, rig.Options{})
	const servers = 30
	_, s, err := simulated.Run(t.Context(), f, simulated.Options{
		Servers: servers, Within: 3 * time.Minute, Kill: true, Flags: []string{"--seed", "7", "--duration", "1s"},
	})
	if err != nil { // it names tasks without an end or a start, and those with two
		t.Fatal(err)
	}
	if s.Joined != servers || s.Compared != 2*servers || s.Recovery.Ended == 0 {
		t.Errorf("%+v; want %d servers, and an install and an upgrade of each compared", s, servers)
	}
}

// rolled upgrades simulated servers by a rollout. Close checks that no wave went past a closed gate.
func rolled(t *testing.T, o rig.Options, r simulated.Rollout, flags ...string) simulated.Summary {
	t.Helper()
	o.Beat = 3 * time.Second // one that is called offline on a busy machine would be owed its change
	_, s, err := simulated.Run(t.Context(), scenario.Simulated(t, o), simulated.Options{
		Servers: rolledServers, Within: 4 * time.Minute, Faulty: true, Rollout: &r,
		Flags: append([]string{"--seed", "7", "--duration", "50ms"}, flags...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const rolledServers = 40

func TestARolloutOverSimulatedServersEndsWithTheLostAndTheHangingOnesNamed(t *testing.T) {
	t.Parallel()
	s := rolled(t, rig.Options{Deadline: 15 * time.Second},
		simulated.Rollout{Flags: []string{"--waves", "10%,50%", "--max-broken", "50%", "--silence", "1h"}},
		"--vanishing", "0.1", "--slow", "0.1", "--hanging", "0.05")
	r, vanishing, hanging := s.Rolled, s.Faults["vanishing"], s.Faults["hanging"]
	if vanishing == 0 || hanging == 0 {
		t.Fatalf("the seed makes no server vanish or hang: %v", s.Faults)
	}
	sum := r.Counts[rolloutv1.TargetState_TARGET_STATE_SUCCEEDED] + r.Counts[rolloutv1.TargetState_TARGET_STATE_BROKEN]
	if r.State != rolloutv1.State_STATE_SUCCEEDED || r.Owed < vanishing || sum != rolledServers-r.Owed ||
		r.Counts[rolloutv1.TargetState_TARGET_STATE_BROKEN] < hanging || r.Opened != 3 {
		t.Errorf("%+v, faults %v; want a rollout whose three waves passed", r, s.Faults)
	}
	if n := len(slowNamed.FindAllString(r.Watched, -1)); n < hanging {
		t.Errorf("%d slow servers are named with their step, want the %d that hang:\n%s", n, hanging, r.Watched)
	}
}

// slowNamed is a line of garrison watch.
var slowNamed = regexp.MustCompile(`slow: sim-\d+: \S+ at step prove for \d+s; the median is `)

func TestARolloutOfAVersionThatWorksNowhereTouchesTheFirstWaveOnly(t *testing.T) {
	t.Parallel()
	r := rolled(t, rig.Options{}, simulated.Rollout{Flags: []string{"--waves", "3,10%", "--max-broken", "2"}},
		"--bad", "2.0.0=1").Rolled
	if !r.Halted() || r.Touched != 3 || r.Opened != 1 {
		t.Errorf("%+v; want a halt after the three servers of the first wave", r)
	}
}

// No more servers are released than may still break, or one.
func TestAHaltStopsWhatWasReleasedAndNotBegun(t *testing.T) {
	t.Parallel()
	r := rolled(t, rig.Options{}, simulated.Rollout{Flags: []string{"--max-broken", "1"}},
		"--bad", "2.0.0=1", "--duration", "2s").Rolled
	if !r.Halted() || r.Touched > 2 || r.Counts[rolloutv1.TargetState_TARGET_STATE_PENDING] == 0 {
		t.Errorf("%+v; want servers that keep what they have", r)
	}
}

func TestARolloutWhoseServicesAreKilledAgainAndAgainChangesEveryServerOnce(t *testing.T) {
	t.Parallel()
	r := rolled(t, rig.Options{Apart: true, Views: true}, simulated.Rollout{
		Kill: 3 * time.Second, Flags: []string{"--waves", "2,25%", "--max-broken", "4", "--silence", "1h"},
	}).Rolled
	changed := r.Counts[rolloutv1.TargetState_TARGET_STATE_SUCCEEDED]
	if r.State != rolloutv1.State_STATE_SUCCEEDED || changed != rolledServers {
		t.Errorf("%+v; want all %d servers changed", r, rolledServers)
	}
}
