package bus_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

var (
	registryService = registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService")
	getServer       = registryService.Methods().ByName("GetServer")
)

func serving(
	t *testing.T,
	f func(context.Context, bus.Caller, *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error),
) *bus.Conn {
	t.Helper()
	b := bustest.Start(t)
	s, err := b.Dial(t, "registry").NewService("registry", "v1.2.3", registryService)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := bus.Handle(s, "GetServer", f); err != nil {
		t.Fatal(err)
	}
	return b.Dial(t, "alice")
}

func TestACallIsAnsweredAndSaysWhoAsks(t *testing.T) {
	t.Parallel()
	c := serving(
		t,
		func(_ context.Context, who bus.Caller, q *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
			if who.Actor != "alice" || who.Request == "" || q.Server != "web-1" {
				return nil, errors.New("not what was asked")
			}
			return &registryv1.GetServerResponse{}, nil
		},
	)
	req := &registryv1.GetServerRequest{Server: "web-1"}
	if _, err := bus.Call[*registryv1.GetServerResponse](t.Context(), c, "registry", getServer, req); err != nil {
		t.Error(err)
	}
}

func TestAQuestionThatPanicsEndsAlone(t *testing.T) {
	t.Parallel()
	c := serving(t, func(
		_ context.Context, _ bus.Caller, q *registryv1.GetServerRequest,
	) (*registryv1.GetServerResponse, error) {
		if q.Server == "" {
			panic("no server")
		}
		return &registryv1.GetServerResponse{}, nil
	})
	ask := func(server string) error {
		q := &registryv1.GetServerRequest{Server: server}
		_, err := bus.Call[*registryv1.GetServerResponse](t.Context(), c, "registry", getServer, q)
		return err
	}
	for range 3 {
		if err := ask(""); !fault.Is(err, fault.Internal) || strings.Contains(err.Error(), "goroutine") {
			t.Errorf("want a short internal error, have %v", err)
		}
		if err := ask("web-1"); err != nil {
			t.Error(err)
		}
	}
}

func TestANoteThatNoFactCanKeepIsRefused(t *testing.T) {
	t.Parallel()
	heard := ""
	c := serving(
		t,
		func(_ context.Context, who bus.Caller, _ *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
			heard = who.Note
			return &registryv1.GetServerResponse{}, nil
		},
	)
	for note, want := range map[string]string{
		"": "", "OPS-8: größer": "", "a\x1b[31mb": code.Invalid, "a\tb": code.Invalid,
		strings.Repeat("x", ledger.MaxNote+1): code.Invalid,
	} {
		heard = "nothing"
		_, err := bus.Call[*registryv1.GetServerResponse](bus.WithNote(t.Context(), note), c, "registry", getServer,
			&registryv1.GetServerRequest{Server: "web-1"})
		if got := fault.RefusalOf(err).GetCode(); got != want || want == "" && heard != note ||
			want != "" && heard != "nothing" {
			t.Errorf("%q: %v; the handler heard %q", note, err, heard)
		}
	}
}

func TestARefusalArrivesAsItWasGiven(t *testing.T) {
	t.Parallel()
	c := serving(
		t,
		func(context.Context, bus.Caller, *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
			return nil, fault.Refuse(
				fault.NotFound,
				&apiv1.Refusal{
					Code:    "UNKNOWN_SERVER",
					Message: `no server "web-1" (3 searched)`,
					Nearest: "web-2",
					Try:     "garrison server list",
				},
			)
		},
	)
	_, err := bus.Call[*registryv1.GetServerResponse](t.Context(), c, "registry", getServer,
		&registryv1.GetServerRequest{})
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("kind %v, want not found", fault.KindOf(err))
	}
	want := `registry: UNKNOWN_SERVER: no server "web-1" (3 searched). Nearest: web-2. Try: garrison server list`
	if err == nil || err.Error() != want {
		t.Errorf("have %v\nwant %s", err, want)
	}
}

func TestACallNobodyAnswersEndsWithItsDeadline(t *testing.T) {
	t.Parallel()
	c := bustest.Start(t).Dial(t, "alice")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := bus.Call[*registryv1.GetServerResponse](ctx, c, "registry", getServer, &registryv1.GetServerRequest{})
	if !fault.Is(err, fault.Unavailable) || fault.RefusalOf(err).GetCode() != "NO_ANSWER" {
		t.Errorf("%v, want unavailable with a code", err)
	}
}

func TestOfACallThatWritesAndHasNoAnswerTheOutcomeIsNotKnown(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c, silent := b.Dial(t, "alice"), b.Dial(t, "registry")
	createAgent := registryService.Methods().ByName("PutRecord")
	says := func(method protoreflect.MethodDescriptor, q proto.Message) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := bus.Call[*registryv1.PutRecordResponse](ctx, c, "registry", method, q)
		if fault.RefusalOf(err).GetCode() != "NO_ANSWER" {
			t.Errorf("%v, want no answer", err)
		}
		return strings.Contains(fault.RefusalOf(err).GetMessage(), "is not known")
	}
	if says(createAgent, record.Create(&agentv1.Agent{})) {
		t.Error("nothing took the call")
	}
	for _, m := range []protoreflect.MethodDescriptor{createAgent, getServer} { // taken, and never answered
		if _, err := silent.Subscribe(bus.CallSubject("registry", m, "alice"), func(bus.Message) {}); err != nil {
			t.Fatal(err)
		}
	}
	if !says(createAgent, record.Create(&agentv1.Agent{})) || says(getServer, &registryv1.GetServerRequest{}) {
		t.Error("only a call that writes may have been carried out")
	}
}

func TestAHandlerForAnotherRequestIsRefused(t *testing.T) {
	t.Parallel()
	s, err := bustest.Start(t).Dial(t, "registry").NewService("registry", "dev", registryService)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	wrong := func(context.Context, bus.Caller, *registryv1.ListServersRequest) (*registryv1.GetServerResponse, error) {
		return nil, nil
	}
	if bus.Handle(s, "GetServer", wrong) == nil {
		t.Error("a handler for ListServersRequest was taken for GetServer")
	}
	if bus.Handle(s, "NoSuchMethod", wrong) == nil {
		t.Error("a method that no descriptor has was taken")
	}
}

// intents publishes intents by hand and consumes them with handle.
func intents(t *testing.T, n int, handle bus.Handler) *bus.Conn {
	t.Helper()
	b := bustest.Start(t)
	c := b.Dial(t, "registry")
	for range n {
		subject := topology.IntentSubject(topology.VerbRefresh, "alice", ident.New())
		if _, err := c.PublishDurable(t.Context(), bus.Durable{Subject: subject, Data: []byte(subject)}); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Go(t, func(ctx context.Context) error { return c.Consume(ctx, topology.RegistryIntents, handle) })
	return c
}

func TestEveryMessageIsHandledAlsoWhenItFailsAtFirst(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	tries := map[string]int{}
	intents(t, 40, func(_ context.Context, m bus.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if tries[m.Subject]++; tries[m.Subject] < 3 {
			return fault.New(fault.Unavailable, "not yet")
		}
		return nil
	})
	polltest.Eventually(t, "each message was handled at its third try", func() bool {
		mu.Lock()
		defer mu.Unlock()
		done := 0
		for _, n := range tries {
			if n == 3 {
				done++
			}
		}
		return done == 40
	})
}

func TestAMessageThatCannotBeHandledDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	handled := 0
	c := intents(t, 40, func(_ context.Context, m bus.Message) error {
		if m.Sequence == 7 {
			return fault.New(fault.Invalid, "poison:\nnot readable")
		}
		mu.Lock()
		defer mu.Unlock()
		handled++
		return nil
	})
	polltest.Eventually(t, "all others are handled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return handled == 39
	})
	polltest.Eventually(t, "the bad message is a dead letter", func() bool {
		m, err := c.DirectGet(t.Context(), topology.DeadLetter, topology.DeadLetterSubject(topology.Intents, "alice"))
		return err == nil && string(m.Data) == m.Get("Garrison-Subject") &&
			m.Get("Garrison-Reason") == "poison: not readable" &&
			m.Get("Garrison-Sequence") == "7"
	})
}

func TestJSONIsReadWhenTheContentTypeSaysSo(t *testing.T) {
	t.Parallel()
	var q registryv1.GetServerRequest
	m := bus.Message{Header: nats.Header{"Content-Type": {"application/json"}}, Data: []byte(`{"server":"web-1"}`)}
	if err := bus.Unmarshal(m, &q); err != nil || q.Server != "web-1" {
		t.Errorf("server %q, %v", q.Server, err)
	}
	m.Data = []byte(`{"sever":"web-1"}`)
	if err := bus.Unmarshal(m, &q); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown field: %v, want invalid", err)
	}
}

// A service that stops answers what it has taken. What comes later is answered at once, as not taken.
func TestAServiceThatStopsFinishesWhatItHasTaken(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	s, err := b.Dial(t, "registry").NewService("registry", "v1.2.3", registryService)
	if err != nil {
		t.Fatal(err)
	}
	taken, finish := make(chan struct{}, 100), make(chan struct{})
	err = bus.Handle(s, "GetServer", func(
		context.Context, bus.Caller, *registryv1.GetServerRequest,
	) (*registryv1.GetServerResponse, error) {
		taken <- struct{}{}
		<-finish
		return &registryv1.GetServerResponse{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c := b.Dial(t, "alice")
	ask := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := bus.Call[*registryv1.GetServerResponse](ctx, c, "registry", getServer,
			&registryv1.GetServerRequest{Server: "web-1"})
		return err
	}
	answered, closed := make(chan error, 1), make(chan struct{})
	go func() { answered <- ask(time.Minute) }()
	<-taken
	go func() { s.Close(); close(closed) }()
	polltest.Eventually(t, "it takes no more requests", func() bool { return bus.NotSent(ask(100 * time.Millisecond)) })
	select {
	case <-closed:
		t.Fatal("it stopped before it answered what it had taken")
	default:
	}
	close(finish)
	if err := <-answered; err != nil {
		t.Errorf("what it had taken: %v", err)
	}
	<-closed
}

// A question that waits for something does not hold up the stop: it is to be asked again.
func TestAQuestionThatWaitsEndsWithTheService(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	s, err := b.Dial(t, "registry").NewService("registry", "v1.2.3", registryService)
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan struct{})
	err = bus.Handle(s, "GetServer", func(
		ctx context.Context, _ bus.Caller, _ *registryv1.GetServerRequest,
	) (*registryv1.GetServerResponse, error) {
		close(taken)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := bus.Call[*registryv1.GetServerResponse](t.Context(), b.Dial(t, "alice"), "registry", getServer,
			&registryv1.GetServerRequest{Server: "web-1"})
		answered <- err
	}()
	<-taken
	s.Close()
	if err := <-answered; !bus.NotSent(err) || !strings.Contains(err.Error(), "stops") {
		t.Errorf("%v, want that it is to be asked again", err)
	}
}
