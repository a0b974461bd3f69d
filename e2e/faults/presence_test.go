package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// A server whose executor is killed is late as soon as the bus sees its connection end, long before a beat is missing,
// and online again with the first beat of the next executor, although its beats are rare.
func TestAServerWhoseExecutorIsKilledIsLateBeforeABeatIsMissing(t *testing.T) {
	t.Parallel()
	const beat = 30 * time.Second
	w := &world{scenario.New(t, rig.Options{Beat: beat}, "web-1")}
	shows := func(state string) func() error {
		return func() error {
			if list := w.OK("server", "list"); !strings.Contains(list, state) {
				return fmt.Errorf("garrison server list says:\n%s", list)
			}
			return nil
		}
	}
	w.Eventually("the server is online", shows("online"))
	scenario.Must(t, w.Servers[0].Executor.Kill())
	killed := time.Now()
	w.Eventually("the server is late", shows("late"))
	if took := time.Since(killed); took >= beat {
		t.Errorf("it was late after %v, when a beat was missing", took)
	}
	if shown := w.OK("server", "show", "web-1"); !strings.Contains(shown, "it has no connection to the bus") {
		t.Errorf("garrison server show says:\n%s", shown)
	}
	scenario.Must(t, w.Servers[0].Executor.Start())
	w.Eventually("the server is online again", shows("online"))
	if took := time.Since(killed); took >= beat {
		t.Errorf("it was online again after %v, not with its first beat", took)
	}
}
