package events

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

const (
	web1 = "01900000-0000-7000-8000-000000000001"
	web2 = "01900000-0000-7000-8000-000000000002"
)

// longLedger writes n facts about tasks, with one about a server among the first.
func longLedger(t *testing.T, b *bustest.Bus, n int) (conn *bus.Conn, ids []string) {
	t.Helper()
	conn = b.Dial(t, "writer")
	w := b.Writer(t, conn)
	about := ledger.Fact{
		Noun:   ledger.Server,
		Key:    web1,
		Body:   &serverv1.Online{},
		ID:     ident.New(),
		At:     noon,
		Source: ledger.Registry,
		Actor:  "x",
	}
	drafts := []ledger.Draft{ledger.Free(about)}
	for i := range n - 1 {
		ids = append(ids, ident.From("task", fmt.Sprint(i)))
		drafts = append(drafts, ledger.Free(ledger.Fact{
			Noun: ledger.Task, Key: ids[i], Body: &taskv1.Queued{Agent: "beacon"}, ID: ident.New(), At: noon,
			Source: ledger.Dispatcher, Actor: "x", Request: web2,
		}))
	}
	for part := range slices.Chunk(drafts, 500) {
		if _, err := w.Append(t.Context(), part...); err != nil {
			t.Fatal(err)
		}
	}
	return conn, ids
}

// serveLedger answers reads of the ledger in place of the registry.
func serveLedger(t *testing.T, b *bustest.Bus) {
	t.Helper()
	conn := b.Dial(t, ledger.Registry)
	s, err := conn.NewService(ledger.Registry, "v1.0.0", client.Services[ledger.Registry])
	if err != nil {
		t.Fatal(err)
	}
	if err := facts.Serve(s, conn); err != nil {
		t.Fatal(err)
	}
}

// sequences reads the facts that fit.
func sequences(t *testing.T, c *client.Client, f eventFlags, ids ...string) (out []uint64) {
	t.Helper()
	r := &reader{client: c, flags: f, ids: ids}
	err := r.readAll(t.Context(), func(events []event) (bool, error) {
		for _, e := range events {
			out = append(out, e.Sequence)
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheLastFactsAreReadFromTheEnd(t *testing.T) {
	b := bustest.Start(t)
	_, ids := longLedger(t, b, 2600)
	serveLedger(t, b)
	reads := client.New(b.Dial(t, "ann"), 0)
	for name, c := range map[string]struct {
		flags eventFlags
		ids   []string
		want  []uint64
	}{
		"the last":               {eventFlags{limit: 3}, nil, []uint64{2598, 2599, 2600}},
		"the last of a noun":     {eventFlags{limit: 2, noun: "task"}, nil, []uint64{2599, 2600}},
		"a rare noun":            {eventFlags{limit: 2, noun: "server"}, nil, []uint64{1}},
		"by its name":            {eventFlags{limit: 2, facts: []string{"online"}}, nil, []uint64{1}},
		"of a key":               {eventFlags{limit: 9}, []string{web1}, []uint64{1}},
		"of a key and its noun":  {eventFlags{noun: "task"}, []string{ids[2000]}, []uint64{2002}},
		"of a part of an id":     {eventFlags{limit: 1}, []string{ids[7][:8]}, []uint64{9}},
		"of a request":           {eventFlags{limit: 2}, []string{web2}, []uint64{2599, 2600}},
		"more than there are":    {eventFlags{limit: 5, noun: "server"}, nil, []uint64{1}},
		"from a place, forwards": {eventFlags{from: 2599}, nil, []uint64{2599, 2600}},
	} {
		have := sequences(t, reads, c.flags, c.ids...)
		if c.flags.limit > 0 { // the printer keeps the last of them
			have = have[max(0, len(have)-int(c.flags.limit)):]
		}
		if !slices.Equal(have, c.want) {
			t.Errorf("%s: %v, want %v", name, have, c.want)
		}
	}
}

// The facts of a server are read by its key. Only the name of an agent, which is a part of other keys too, needs the
// whole ledger.
func TestTheNameOfAServerIsReadByItsKey(t *testing.T) {
	b := bustest.Start(t)
	conn, _ := longLedger(t, b, 3)
	serveLedger(t, b)
	agent := ledger.Fact{
		Noun: ledger.Agent, Key: "beacon", Body: &agentv1.Created{}, ID: ident.New(), At: noon,
		Source: ledger.Registry, Actor: "x",
	}
	if _, err := b.Writer(t, conn).Append(t.Context(), ledger.Free(agent)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ids  []string
		want []uint64
	}{
		"web-1":  {[]string{web1}, []uint64{1}},
		"beacon": {[]string{"beacon", web1}, []uint64{1, 4}},
	} {
		r := &reader{client: client.New(b.Dial(t, "ann"), 0), ids: []string{name, web1}}
		var have []uint64
		err := r.readAll(t.Context(), func(events []event) (bool, error) {
			for _, e := range events {
				have = append(have, e.Sequence)
			}
			return true, nil
		})
		if err != nil || !slices.Equal(r.ids, c.ids) || !slices.Equal(have, c.want) {
			t.Errorf("%s: read %v by %v (%v), want %v by %v", name, have, r.ids, err, c.want, c.ids)
		}
	}
}

// transcript is a writer that others read while it is written.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *transcript) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *transcript) count(word string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), word)
}

// A backup is restored while a client follows the ledger, and the ledger grows beyond its old end.
func TestALedgerThatWasSetBackIsReportedAndReadAgain(t *testing.T) {
	b, backup := bustest.Start(t), t.TempDir()
	conn, _ := longLedger(t, b, 3)
	serveLedger(t, b)
	b.Restart(t, func(store string) {
		if err := os.CopyFS(backup, os.DirFS(store)); err != nil {
			t.Fatal(err)
		}
	})
	longLedger(t, b, 2)
	out, errs := &transcript{}, &transcript{}
	env := cli.NewEnv(strings.NewReader(""), out, errs, func(string) string { return "" })
	env.Conn, env.Output.Format = b.Dial(t, "ann"), output.FormatName
	command := Command(env)
	command.SetArgs([]string{"-f", "--cursor", "1"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	polltest.Eventually(t, "five facts are read", func() bool { return out.count("\n") == 5 })
	b.Restart(t, func(store string) {
		if err := os.RemoveAll(store); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(store, os.DirFS(backup)); err != nil {
			t.Fatal(err)
		}
	})
	polltest.Eventually(t, "the bus is back",
		func() bool { _, err := conn.Stream(t.Context(), "LEDGER"); return err == nil })
	longLedger(t, b, 4)
	polltest.Eventually(t, "the reset is printed",
		func() bool { return errs.count("reset: the ledger no longer has fact 5;") == 1 })
	polltest.Eventually(t, "all seven are read again", func() bool { return out.count("\n") == 12 })
	cancel()
	<-ended
}

// A rollout's servers are changed by intents of its own, whose facts name those intents and not the rollout.
func TestTheIntentsAndTasksOfARolloutAreFoundByItsID(t *testing.T) {
	b := bustest.Start(t)
	id, derived, another, task := ident.New(), ident.From("d"), ident.From("e"), ident.From("t")
	fact := func(n ledger.Noun, key, request string, body proto.Message) ledger.Draft {
		return ledger.Free(ledger.Fact{
			Noun: n, Key: key, Body: body, ID: ident.New(), At: noon, Source: ledger.Registry, Actor: "x",
			Request: request,
		})
	}
	accepted := func(rollout string) *intentv1.Accepted {
		return &intentv1.Accepted{Intent: &intentv1.Intent{
			Ask: &intentv1.Intent_Upgrade{}, Source: &intentv1.Source{RolloutId: rollout},
		}}
	}
	_, err := b.Writer(t, b.Dial(t, "writer")).Append(t.Context(),
		fact(ledger.Intent, id, id, &intentv1.Accepted{Intent: &intentv1.Intent{Ask: &intentv1.Intent_Rollout{
			Rollout: &intentv1.Rollout{Title: "up"},
		}}}),
		fact(ledger.Rollout, id, id, &rolloutv1.Planned{}),
		fact(ledger.Instance, ledger.Key(web1, "beacon"), derived, &instancev1.Wanted{}),
		fact(ledger.Intent, derived, derived, accepted(id)),
		fact(ledger.Instance, ledger.Key(web2, "beacon"), another, &instancev1.Wanted{}),
		fact(ledger.Intent, another, another, accepted(ident.New())),
		fact(ledger.Task, task, derived, &taskv1.Queued{ServerId: web1}),
		fact(ledger.Task, task, derived, &taskv1.Assigned{}),
		fact(ledger.Task, ident.New(), another, &taskv1.Queued{ServerId: web2}),
	)
	if err != nil {
		t.Fatal(err)
	}
	serveLedger(t, b)
	c := client.New(b.Dial(t, "ann"), 0)
	for name, q := range map[string]struct {
		flags eventFlags
		id    string
		want  []uint64
	}{
		"by its id":            {eventFlags{}, id, []uint64{1, 2, 3, 4, 7, 8}},
		"by a part of it":      {eventFlags{}, id[len(id)-8:], []uint64{1, 2, 3, 4, 7, 8}},
		"its tasks":            {eventFlags{noun: "task", nouns: []string{"task"}}, id, []uint64{7, 8}},
		"its intents":          {eventFlags{noun: "intent", nouns: []string{"intent"}}, id, []uint64{1, 4}},
		"its own facts":        {eventFlags{noun: "rollout", nouns: []string{"rollout"}}, id, []uint64{2}},
		"the last ones":        {eventFlags{limit: 3}, id, []uint64{4, 7, 8}},
		"one of its intents":   {eventFlags{}, derived, []uint64{3, 4, 7, 8}},
		"an intent by its key": {eventFlags{noun: "intent", nouns: []string{"intent"}}, derived, []uint64{4}},
	} {
		if have := sequences(t, c, q.flags, q.id); !slices.Equal(have, q.want) {
			t.Errorf("%s: %v, want %v", name, have, q.want)
		}
	}
}
