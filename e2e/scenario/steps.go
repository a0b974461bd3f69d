package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// Must ends a test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// OK runs the CLI and fails the test unless it exits with 0.
func (w *World) OK(args ...string) string {
	w.T.Helper()
	out, err := w.CLI(w.T.Context(), args...)
	if err != nil {
		w.T.Fatalf("%v\n%s", err, out)
	}
	return out
}

// Fails runs the CLI and fails the test unless it exits with code and prints a text.
func (w *World) Fails(code int, says string, args ...string) {
	w.T.Helper()
	_, err := w.CLI(w.T.Context(), args...)
	e, ok := errors.AsType[*rig.CLIError](err)
	if !ok || e.Code != code || !strings.Contains(e.Stderr, says) {
		w.T.Errorf("garrison %s: %v; want exit code %d and %q", strings.Join(args, " "), err, code, says)
	}
}

// Eventually waits until done returns no error.
func (w *World) Eventually(what string, done func() error) {
	w.T.Helper()
	polltest.Succeeds(w.T, what, done)
}

// Instances returns the instances of agents of a kind. Waits poll it, so it starts no program.
func (w *World) Instances(kind agentv1.Kind) (rows []*instancev1.Instance, err error) {
	r, err := Ask[*registryv1.ListInstancesResponse](w, &registryv1.ListInstancesRequest{Kind: kind})
	for _, row := range r.GetInstances() {
		rows = append(rows, row.GetInstance())
	}
	return rows, err
}

// Ask asks a service as the first operator.
func Ask[R proto.Message](w *World, question proto.Message) (answer R, err error) {
	c, err := w.Client(w.T.Context(), 0)
	if err != nil {
		return answer, err
	}
	defer c.Close()
	return client.Call[R](w.T.Context(), c, question)
}

// Converges waits until every server's instance is converged at version and its agent answers so.
func (w *World) Converges(version string) {
	w.T.Helper()
	w.Eventually("every instance is converged at "+version, func() error {
		rows, err := w.Instances(agentv1.Kind_KIND_DAEMON)
		if err != nil {
			return err
		}
		if len(rows) != len(w.Servers) {
			return fmt.Errorf("%d instances on %d servers", len(rows), len(w.Servers))
		}
		for _, r := range rows {
			if at := r.GetObserved().GetVersion(); r.GetState() != instancev1.State_STATE_CONVERGED || at != version {
				return fmt.Errorf("an instance is %s at %q: %s", r.GetState(), at, r.GetReason())
			}
		}
		return nil
	})
	w.Answers(version)
}

// Answers fails the test unless the agent on every server answers with version.
func (w *World) Answers(version string) {
	w.T.Helper()
	for _, s := range w.Servers {
		if got, err := s.Get(w.T.Context(), "/"); err != nil || got != version {
			w.T.Errorf("the agent on %s answers %q (%v), want %q", s.Name, got, err, version)
		}
	}
}

// Facts reads the whole ledger.
func (w *World) Facts() (facts []ledger.Fact) {
	w.T.Helper()
	c, err := w.Client(w.T.Context(), 0)
	if err != nil {
		w.T.Fatal(err)
	}
	defer c.Close()
	for e, err := range c.Events(w.T.Context(), client.Query{}) {
		if err = errors.Join(err, e.Unread); err != nil {
			w.T.Fatal(err)
		}
		facts = append(facts, e.Fact)
	}
	return facts
}

// Holds waits until nothing is under way and checks every invariant. Close does the same
// at the end of each scenario; a scenario calls holds to check at an earlier point.
func (w *World) Holds() {
	w.T.Helper()
	if err := w.Verify(w.T.Context()); err != nil {
		w.T.Error(err)
	}
}

// Within returns a context for one step of a scenario.
func Within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// NothingAt returns an error when a path exists.
func NothingAt(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %v", path, err)
	}
	return nil
}

// Left returns an error unless no instances are left.
func Left(instances int) error {
	if instances == 0 {
		return nil
	}
	return fmt.Errorf("%d instances are left", instances)
}

// EqualViews compares every service's live view with one rebuilt in a fresh process.
func (w *World) EqualViews() {
	w.T.Helper()
	if _, err := w.Fleet.EqualViews(w.T.Context(), 1); err != nil {
		w.T.Error(err)
	}
}
