package servers_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// A server with an empty disk runs what its environment wants after it joined, without a command on the control plane.
func TestANewServerRunsWhatItsEnvironmentWants(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	old := w.Servers[0]
	w.OK("env", "create", "prod")
	w.OK("server", "move", "alpha", "--env", "prod", "--yes")
	w.OK("env", "default", "set", "prod", "beacon@1.0.0", "--yes")

	joined, err := w.EnrollServer(t.Context(), "bravo", "--env", "prod")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	scenario.Must(t, joined.Executor.Start())
	w.Servers = []*rig.Server{joined}
	w.Eventually("the agent answers on the new server", func() error {
		_, err := joined.Get(t.Context(), "/")
		return err
	})
	t.Logf("the agent answers %v after the executor of a new server started", time.Since(began).Round(time.Millisecond))
	w.Converges("1.0.0") // on the new server alone

	intents := 0
	for _, f := range w.Facts() {
		if f.Noun == ledger.Intent && f.Name() == "accepted" {
			intents++
		}
	}
	if list := w.OK("intent", "list"); intents != 1 || !strings.Contains(list, "by the default of environment prod") {
		t.Errorf("%d intents; want the one of the default:\n%s", intents, list)
	}

	// What was removed stays away; for all servers, the default brings it again and to the old one.
	w.OK("remove", "beacon", "--on", "bravo", "--yes")
	w.Eventually("the registry knows that it is gone", func() error {
		rows, err := w.Instances("daemon")
		return cmp.Or(err, scenario.Left(len(rows)))
	})
	w.OK("env", "default", "set", "prod", "beacon@1.0.0", "--reach", "all", "--yes")
	w.Servers = []*rig.Server{old, joined}
	w.Converges("1.0.0")
	w.OK("env", "default", "set", "prod", "beacon@2.0.0", "--reach", "all", "--yes")
	w.OK("env", "default", "unset", "prod", "beacon")
	w.Converges("1.0.0") // neither upgrades nor removes
	w.Holds()
	w.EqualViews()
}
