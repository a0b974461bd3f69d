package faults_test

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/e2e/simulated"
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
