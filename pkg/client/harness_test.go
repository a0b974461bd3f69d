package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

const server1 = "01900000-0000-7000-8000-000000000001"

// noon is when every fact of these tests was decided.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// connect returns a client on a bus without accounts.
func connect(t testing.TB, b *bustest.Bus) *client.Client {
	t.Helper()
	return client.New(b.Dial(t, "ann"), 0)
}

// connectToLedger returns a client on a bus on which the ledger can be read.
func connectToLedger(t testing.TB, b *bustest.Bus) *client.Client {
	t.Helper()
	if err := facts.Serve(serve(t, b, ledger.Registry), b.Dial(t, "ledger")); err != nil {
		t.Fatal(err)
	}
	return connect(t, b)
}

// serve answers in place of a service.
func serve(t testing.TB, b *bustest.Bus, name string) *bus.Service {
	t.Helper()
	s, err := b.Dial(t, name).NewService(name, "v1.0.0", client.Services[name])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answer answers one method.
func answer[Q, R proto.Message](t testing.TB, s *bus.Service, method string, f func(Q) (R, error)) {
	t.Helper()
	err := bus.Handle(s, method, func(_ context.Context, _ bus.Caller, q Q) (R, error) { return f(q) })
	if err != nil {
		t.Fatal(err)
	}
}

// recordFacts appends n facts about tasks to the ledger, behind one about a server, and returns the keys of the tasks.
func recordFacts(t testing.TB, b *bustest.Bus, n int) (tasks []string) {
	t.Helper()
	drafts := []ledger.Draft{ledger.Free(ledger.Fact{
		Noun: ledger.Server, Key: server1, Body: &serverv1.Online{}, ID: ident.New(), At: noon,
		Source: ledger.Registry, Actor: "x",
	})}
	for range n - 1 {
		tasks = append(tasks, ident.New())
		drafts = append(drafts, ledger.Free(ledger.Fact{
			Noun: ledger.Task, Key: tasks[len(tasks)-1], Body: &taskv1.Queued{Agent: "beacon"}, ID: ident.New(),
			At: noon, Source: ledger.Dispatcher, Actor: "x",
		}))
	}
	w := b.Writer(t, b.Dial(t, "writer-"+ident.New()))
	for len(drafts) > 0 {
		part := drafts[:min(500, len(drafts))]
		drafts = drafts[len(part):]
		if _, err := w.Append(t.Context(), part...); err != nil {
			t.Fatal(err)
		}
	}
	return tasks
}

// within returns a context that ends with the test, and after a time by which the test must have ended.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, fmt.Errorf("not within 30 s"))
	t.Cleanup(cancel)
	return ctx
}
