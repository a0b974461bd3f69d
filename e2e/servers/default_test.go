package servers_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

// A server with an empty disk runs what its environment wants after it joined, without a command on the control plane.
func TestANewServerRunsWhatItsEnvironmentWants(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	old := w.Servers[0]
	w.OK("env", "create", "prod")
	w.OK("server", "set", "alpha", "--env", "prod", "--yes")
	w.OK("env", "default", "prod", "beacon@1.0.0", "--yes")

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
		rows, err := w.Instances(agentv1.Kind_KIND_DAEMON)
		return cmp.Or(err, scenario.Left(len(rows)))
	})
	w.OK("env", "default", "prod", "beacon@1.0.0", "--reach", "all", "--yes")
	w.Servers = []*rig.Server{old, joined}
	w.Converges("1.0.0")
	w.OK("env", "default", "prod", "beacon@2.0.0", "--reach", "all", "--yes")
	w.OK("env", "default", "prod", "beacon", "--none", "--yes")
	w.Converges("1.0.0") // neither upgrades nor removes
	w.Holds()
	w.EqualViews()
}

// A version that failed where a person brought it, and works nowhere, reaches no further server: not by a default, and
// not by a repair. What its server undid is wanted there as before.
func TestADefaultBringsNoVersionThatFailedAndWorksNowhere(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.OK("env", "create", "prod")
	w.OK("server", "set", "alpha", "--env", "prod", "--yes")
	w.OK("install", "beacon@1.0.0", "--on", "alpha")
	w.OK("env", "default", "prod", "beacon", "--yes")
	w.Image("3.0.0", "exit")
	w.Fails(1, "undone", "up", "beacon", "--on", "alpha", "--yes")
	w.Converges("1.0.0")
	w.OK("check", "--fix", "--yes")
	w.Fails(1, "FAILED_BEFORE", "up", "beacon", "--on", "alpha", "--yes")

	joined, err := w.EnrollServer(t.Context(), "bravo", "--env", "prod")
	if err != nil {
		t.Fatal(err)
	}
	scenario.Must(t, joined.Executor.Start())
	w.Eventually("the default waits, and nothing else differs", func() error {
		// A server that just joined may lack its first report.
		if text, _ := w.CLI(t.Context(), "check", "-o", "name"); text != "bravo/beacon/FAILED_BEFORE\n" {
			return errors.New(text)
		}
		return nil
	})
	w.Fails(3, "needs a person", "check", "--fix", "--yes")
	for _, c := range []struct{ command, want string }{
		{"status", "server waits for a default"}, {"explain bravo", "3.0.0"}, {"explain alpha beacon", "3.0.0"},
	} {
		if text := w.OK(strings.Fields(c.command)...); !strings.Contains(text, c.want) {
			t.Errorf("%s has no %q:\n%s", c.command, c.want, text)
		}
	}
	if rows, err := w.Instances(agentv1.Kind_KIND_DAEMON); err != nil || len(rows) != 1 {
		t.Errorf("the instances are %+v, %v; want the one of alpha", rows, err)
	}
	w.Image("4.0.0", "")
	w.Eventually("the next version is brought", func() error {
		_, err := joined.Get(t.Context(), "/")
		return err
	})
	w.Holds()
}
