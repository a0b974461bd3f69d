package faults_test

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/failover"
	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// `make cluster-test` loses every server of the bus in every way, under more load, and measures how long that takes.
func TestTheLossOfAServerOfTheBusUnderLoadLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	f := scenario.Simulated(t, rig.Options{Cluster: true, Beat: 5 * time.Second})
	rows, err := failover.Run(t.Context(), f, failover.Options{
		Servers: 30, Every: 300 * time.Millisecond, Lasts: 5 * time.Second, Within: 3 * time.Minute,
		Losses: []failover.Loss{{Kind: failover.Killed, Member: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := failover.Judge(rows); err != nil || len(rows) != 1 {
		t.Errorf("%d rows: %v", len(rows), err)
	}
}
