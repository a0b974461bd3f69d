package changes_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

// An upgrade reaches one of two servers, and is withdrawn while the other is offline. That one keeps its version when
// it returns, no task retries, and the registry lists both versions.
func TestAWithdrawnUpgradeComesToNoServerWhereItHadNotBegun(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	scenario.Must(t, w.Servers[1].Executor.Stop())
	w.Eventually("bravo is offline", func() error { return w.presenceIs("bravo", "offline") })
	id := strings.TrimSpace(w.OK("up", "beacon@2.0.0", "--on", "all", "--yes", "--detach", "-o", "name"))
	w.Eventually("alpha has it", func() error { return w.progressIs(id, "1 succeeded, 1 queued") })

	w.OK("cancel", id, "--yes", "-m", "the wrong one")
	w.Eventually("nothing of it is to come",
		func() error { return w.progressIs(id, "1 succeeded, 1 cancelled; finished") })
	scenario.Must(t, w.Servers[1].Executor.Revive())
	w.Eventually("bravo is online", func() error { return w.presenceIs("bravo", "online") })
	w.Eventually("each server has its own version", func() error {
		rows, err := w.Instances(agentv1.Kind_KIND_DAEMON)
		var have []string
		for _, r := range rows {
			have = append(have, r.GetState().String()+" "+r.GetObserved().GetVersion())
		}
		slices.Sort(have)
		if want := []string{"STATE_CONVERGED 1.0.0", "STATE_CONVERGED 2.0.0"}; err == nil && !slices.Equal(have, want) {
			err = fmt.Errorf("%v, want %v", have, want)
		}
		return err
	})
	w.Eventually("the agent on bravo, which ended with its executor, runs again", func() error {
		got, err := w.Servers[1].Get(t.Context(), "/")
		if err == nil && got != "1.0.0" {
			err = fmt.Errorf("it answers %q", got)
		}
		return err
	})
	back := 0
	for _, f := range w.Facts() {
		if b, ok := f.Body.(*instancev1.Wanted); ok && b.RevertedIntentId == id {
			back++
		}
	}
	if back != 1 {
		t.Errorf("%d instances are wanted as before, want 1", back)
	}
}

// presenceIs returns an error unless a server has a presence.
func (w *world) presenceIs(name, presence string) error {
	out, err := w.CLI(w.T.Context(), "server", "show", name, "-o", "json")
	if err != nil {
		return err
	}
	var s struct{ Presence string }
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.Presence != presence {
		return fmt.Errorf("%s is %s (%v)", name, s.Presence, err)
	}
	return nil
}

// progressIs returns an error unless the CLI prints a progress of an intent.
func (w *world) progressIs(id, progress string) error {
	out, err := w.CLI(w.T.Context(), "intent", "show", id)
	if err == nil && !strings.Contains(out, progress) {
		err = fmt.Errorf("%s", out)
	}
	return err
}
