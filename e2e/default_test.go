package e2e_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// left returns an error unless no instances are left.
func left(instances int) error {
	if instances == 0 {
		return nil
	}
	return fmt.Errorf("%d instances are left", instances)
}

// A server with an empty disk runs what its environment wants after it joined, without a command on the control plane.
func TestANewServerRunsWhatItsEnvironmentWants(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleet.Options{}, "alpha")
	old := w.servers[0]
	w.ok("env", "create", "prod")
	w.ok("server", "move", "alpha", "--env", "prod", "--yes")
	w.ok("env", "default", "set", "prod", "beacon@1.0.0", "--yes")

	joined, err := w.EnrollServer(t.Context(), "bravo", "--env", "prod")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := joined.Executor.Start(); err != nil {
		t.Fatal(err)
	}
	w.servers = []*fleet.Server{joined}
	w.eventually("the agent answers on the new server", func() error {
		_, err := joined.Get(t.Context(), "/")
		return err
	})
	t.Logf("the agent answers %v after the executor of a new server started", time.Since(began).Round(time.Millisecond))
	w.converges("1.0.0") // on the new server alone

	intents := 0
	for _, f := range w.facts() {
		if f.Noun == ledger.Intent && f.Name() == "accepted" {
			intents++
		}
	}
	if list := w.ok("intent", "list"); intents != 1 || !strings.Contains(list, "by the default of environment prod") {
		t.Errorf("%d intents; want the one of the default:\n%s", intents, list)
	}

	// What was removed stays away; for all servers, the default brings it again and to the old one.
	w.ok("remove", "beacon", "--on", "bravo", "--yes")
	w.eventually("the registry knows that it is gone", func() error {
		rows, err := w.instances("daemon")
		return cmp.Or(err, left(len(rows)))
	})
	w.ok("env", "default", "set", "prod", "beacon@1.0.0", "--reach", "all", "--yes")
	w.servers = []*fleet.Server{old, joined}
	w.converges("1.0.0")
	w.ok("env", "default", "set", "prod", "beacon@2.0.0", "--reach", "all", "--yes")
	w.ok("env", "default", "unset", "prod", "beacon")
	w.converges("1.0.0") // neither upgrades nor removes
	w.holds()
	w.equalViews()
}
