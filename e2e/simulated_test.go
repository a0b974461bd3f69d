package e2e_test

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/simulated"
)

// newSimulated returns a fleet for simulated servers, which ends with the test.
func newSimulated(t *testing.T, o fleet.Options) *fleet.Fleet {
	t.Helper()
	o.Bin, o.Dir = bin, shortDir(t)
	f, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("stop the fleet: %v", err)
		}
	})
	return f
}

func TestTheLedgerSaysWhatThirtySimulatedServersDid(t *testing.T) {
	t.Parallel()
	f := newSimulated(t, fleet.Options{})
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
	f := newSimulated(t, fleet.Options{})
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
