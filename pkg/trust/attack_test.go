package trust_test

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// What a server may do, it can.
func TestAServerReadsItsDocumentAndReports(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	me := topology.ServerAddress{Cell: "main", Server: ident.New()}
	server := g.Server(t, me.Server, me.Cell)
	dispatcher, registry := g.Service(t, topology.UserDispatcher), g.Service(t, topology.UserRegistry)

	rung := make(chan bus.Message, 1)
	if _, err := server.Subscribe(topology.BellSubject(me), func(m bus.Message) { rung <- m }); err != nil {
		t.Fatal(err)
	}
	beats := make(chan bus.Message, 1)
	if _, err := registry.Subscribe(topology.BeatSubjects, func(m bus.Message) { beats <- m }); err != nil {
		t.Fatal(err)
	}
	// The subscriptions must have reached the server before anything is published.
	if _, err := server.DirectGet(t.Context(), topology.Desired, topology.DesiredSubject(me)); !fault.Is(err,
		fault.NotFound) {
		t.Fatalf("read a document that is not there: %v, want not found", err)
	}
	if _, err := registry.Stream(t.Context(), topology.Ledger); err != nil {
		t.Fatal(err)
	}

	desired := bus.Durable{Subject: topology.DesiredSubject(me), Data: []byte("document")}
	sequence, err := dispatcher.PublishDurable(t.Context(), desired)
	if err != nil {
		t.Fatalf("the dispatcher writes a document: %v", err)
	}
	bell := receive(t, "the bell", rung)
	pushed, ok := bell.Pushed(desired.Subject)
	if !ok || string(pushed.Data) != "document" || bell.Announced() != sequence || pushed.Sequence != sequence {
		t.Errorf("the bell carries %q of %d and announces %d; want the document, and %d",
			bell.Data, pushed.Sequence, bell.Announced(), sequence)
	}
	m, err := server.DirectGet(t.Context(), topology.Desired, topology.DesiredSubject(me))
	if err != nil || string(m.Data) != "document" {
		t.Fatalf("the server reads its document: %q, %v", m.Data, err)
	}
	report := bus.Durable{Subject: topology.ReportSubject(me, topology.ReportTask), Data: []byte("report")}
	if _, err := server.PublishDurable(t.Context(), report); err != nil {
		t.Fatalf("the server reports: %v", err)
	}
	if err := server.Publish(topology.BeatSubject(me), []byte("beat")); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, "the beat", beats); len(m.Header) != 0 {
		t.Errorf("the beat has the header %v, which the bus wrote and nothing reads; want none", m.Header)
	}

	digest := make([]byte, 32)
	catalog := g.Service(t, topology.UserCatalog)
	chunk := bus.Durable{Subject: topology.BlobSubject(digest, 0), Data: []byte("chunk")}
	if _, err := catalog.PublishDurable(t.Context(), chunk); err != nil {
		t.Fatalf("the catalog stores a chunk: %v", err)
	}
	bustest.ServeChunks(t, catalog)
	answers := make(chan bus.Message, 1)
	_, err = server.Subscribe(topology.ChunkAnswersOf(me, digest), func(m bus.Message) { answers <- m })
	if err != nil {
		t.Fatal(err)
	}
	request := topology.ChunkAddress{ServerAddress: me, Digest: hex.EncodeToString(digest)}
	if err := server.Publish(topology.ChunkRequestSubject(request), nil); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, "the chunk", answers); string(m.Data) != "chunk" {
		t.Errorf("the server reads a chunk: %q, %v", m.Data, bus.RefusedIn(m))
	}
}

func receive(t *testing.T, what string, from <-chan bus.Message) bus.Message {
	t.Helper()
	select {
	case m := <-from:
		return m
	case <-time.After(time.Minute):
		t.Fatalf("%s did not come", what)
		return bus.Message{}
	}
}

// What a server must not do leads to nothing stored and nothing read, however it is
// tried. The reply subject of a request is not checked against publish permissions, so
// an API call whose answer goes to another's subject would store it there, were the
// streams in the server's own account.
func TestAServerCannotReachBeyondItself(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	me, victim := topology.ServerAddress{
		Cell:   "main",
		Server: ident.New(),
	}, topology.ServerAddress{
		Cell:   "main",
		Server: ident.New(),
	}
	dispatcher := g.Service(t, topology.UserDispatcher)
	for _, a := range []topology.ServerAddress{me, victim} {
		desired := bus.Durable{Subject: topology.DesiredSubject(a), Data: []byte("of " + a.Server)}
		if _, err := dispatcher.PublishDurable(t.Context(), desired); err != nil {
			t.Fatal(err)
		}
	}
	want := sizes(t, g)
	want[4]++ // one attack forges by the reply subject of a report of its own, and that report may stand
	attacker := g.Raw(t, me.Server, me.Cell)
	heard, err := attacker.SubscribeSync(topology.Inbox(me.Server) + ".>")
	if err != nil {
		t.Fatal(err)
	}
	forged := topology.ChunkAddress{ServerAddress: victim, Digest: hex.EncodeToString(make([]byte, 32))}
	answers := topology.ChunkAnswerSubject(forged)
	_, err = g.Server(t, victim.Server, victim.Cell).Subscribe(answers, func(m bus.Message) {
		t.Errorf("the victim heard %q on %s", m.Data, m.Subject)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range attacksOn(me, victim) {
		if err := attacker.PublishMsg(m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := attacker.Flush(); err != nil {
		t.Fatal(err)
	}
	// What was asked above is answered in order, so once this is, nothing more can come.
	if _, err := attacker.Request(documentOf(me), nil, 5*time.Second); err != nil {
		t.Fatalf("the attacker's own document: %v", err)
	}
	for {
		m, err := heard.NextMsg(100 * time.Millisecond)
		if err != nil {
			break
		}
		own := m.Header.Get("Nats-Subject") == topology.DesiredSubject(me)
		if len(m.Data) > 0 && !own {
			t.Errorf("the attacker heard %q with header %v", m.Data, m.Header)
		}
	}
	if after := sizes(t, g); after != want {
		t.Errorf("streams end at %v after the attacks, want %v", after, want)
	}
	for _, subject := range []string{
		topology.DesiredSubject(victim), topology.ReportSubjects, topology.LedgerSubjects, topology.BellSubject(victim),
		topology.ChunkAnswersOf(victim, make([]byte, 32)), topology.ChunkAnswerSubjects, topology.ChunkRequestSubjects,
		"_INBOX_" + victim.Server + ".>",
	} {
		if denied(t, attacker, subject) == nil {
			t.Errorf("the attacker may subscribe to %s", subject)
		}
	}
}

// documentOf is where a server reads its document.
func documentOf(me topology.ServerAddress) string {
	return topology.NodesAPI + ".DIRECT.GET.DESIRED." + topology.DesiredSubject(me)
}

// sizes returns where each stream ends.
func sizes(t *testing.T, g *bustest.Guarded) (ends [6]uint64) {
	t.Helper()
	c := g.Service(t, topology.UserProvision)
	for i, s := range topology.Streams(1) {
		info, err := c.Stream(t.Context(), s.Name)
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = info.LastSequence
	}
	return ends
}

// denied subscribes and returns the server's refusal, or nil.
func denied(t *testing.T, nc *nats.Conn, subject string) error {
	t.Helper()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	before := nc.LastError()
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.Flush(); err != nil { // the server sends a refusal before it answers
		t.Fatal(err)
	}
	if err := nc.LastError(); err != before {
		return err
	}
	return nil
}

func TestEachServiceMayDoItsWorkAndNoOther(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	for _, user := range topology.Services {
		c := g.Service(t, user)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := c.Replay(ctx, topology.Ledger, 1, func([]bus.Message) error { return nil }); err != nil {
			t.Errorf("%s replays the ledger: %v", user, err)
		}
	}
	registry := g.Service(t, topology.UserRegistry)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	fact := bus.Durable{Subject: ledger.FactSubject(ledger.Task, "x", "queued"), Data: []byte("x")}
	if _, err := registry.PublishDurable(ctx, fact); err == nil {
		t.Error("the registry wrote a fact about a task")
	}
	handled := make(chan string, 1)
	bustest.Go(t, func(ctx context.Context) error {
		return registry.Consume(ctx, topology.RegistryIntents, func(_ context.Context, m bus.Message) error {
			handled <- m.Subject
			return nil
		})
	})
	operator := g.Person(t, "alice", topology.Operator)
	subject := topology.IntentSubject(topology.VerbRefresh, "alice", ident.New())
	if _, err := operator.PublishDurable(t.Context(), bus.Durable{Subject: subject, Data: []byte("{}")}); err != nil {
		t.Fatalf("an operator publishes an intent: %v", err)
	}
	select {
	case got := <-handled:
		if got != subject {
			t.Errorf("the registry heard %s, want %s", got, subject)
		}
	case <-time.After(time.Minute):
		t.Error("the registry did not hear the intent")
	}
	forged, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	intent := bus.Durable{Subject: topology.IntentSubject(topology.VerbRefresh, "bob", ident.New())}
	if _, err := operator.PublishDurable(forged, intent); err == nil {
		t.Error("alice published an intent as bob")
	}
}

func TestTheBusTellsHowItKeepsWhatItAcknowledges(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	s, err := bus.NewSystem(g.Service(t, topology.UserSystem)).Settings(t.Context(), 1)
	if err != nil || len(s) != 1 || s[0].Server != "guarded" || s[0].SyncAlways {
		t.Errorf("settings %+v, %v; want one server that does not sync each write", s, err)
	}
}
