package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/freeport"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestARefusalOfAServiceTravelsUnchanged(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	answer(t, serve(t, b, ledger.Registry), "GetServer",
		func(*registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
			return nil, fault.Refuse(fault.NotFound,
				&apiv1.Refusal{Code: "UNKNOWN_SERVER", Message: "no server web-9", Nearest: "web-1"})
		})
	_, err := connect(t, b).Server(within(t), "web-9")
	r := fault.RefusalOf(err)
	if !fault.Is(err, fault.NotFound) || r.GetCode() != "UNKNOWN_SERVER" || r.GetNearest() != "web-1" ||
		r.GetComponent() != ledger.Registry {
		t.Errorf("%v of kind %v, want the registry's refusal", err, fault.KindOf(err))
	}
}

// A service that restarts is away for a moment, and no call that it did not take was carried out.
func TestACallWaitsAMomentForAServiceThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := connect(t, b)
	began := make(chan struct{})
	answered := make(chan error, 1)
	go func() {
		close(began)
		_, err := c.Server(within(t), "web-1")
		answered <- err
	}()
	<-began
	answer(t, serve(t, b, ledger.Registry), "GetServer",
		func(*registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
			return &registryv1.GetServerResponse{Server: &serverv1.Server{Name: "web-1"}}, nil
		})
	if err := <-answered; err != nil {
		t.Errorf("%v, want the answer of the service that came", err)
	}
	c = client.New(b.Dial(t, "ann"), time.Second)
	_, err := client.CallService[*apiv1.AboutResponse](within(t), c, ledger.Catalog, &apiv1.AboutRequest{})
	if fault.RefusalOf(err).GetCode() != "NO_ANSWER" {
		t.Errorf("%v of a service that does not come, want NO_ANSWER", err)
	}
}

func TestACallNamesAWrongRequestAndAWrongAnswer(t *testing.T) {
	t.Parallel()
	c := connect(t, bustest.Start(t))
	if _, err := client.Call[*serverv1.Server](within(t), c, &registryv1.GetServerRequest{}); err == nil {
		t.Error("no error for an answer of another type")
	}
	if _, err := client.Call[*serverv1.Server](within(t), c, &serverv1.Server{}); err == nil {
		t.Error("no error for a message that is no request")
	}
	if _, err := client.Call[*apiv1.AboutResponse](within(t), c, &apiv1.AboutRequest{}); err == nil {
		t.Error("no error for a request that every service takes")
	}
	q := &registryv1.GetServerRequest{}
	_, err := client.CallService[*registryv1.GetServerResponse](within(t), c, ledger.Registry, q)
	if err == nil {
		t.Error("no error for a request that one service takes")
	}
}

func TestEveryServiceAnswersAboutItself(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	answer(t, serve(t, b, ledger.Catalog), "About", func(*apiv1.AboutRequest) (*apiv1.AboutResponse, error) {
		return &apiv1.AboutResponse{Position: 42}, nil
	})
	r, err := client.CallService[*apiv1.AboutResponse](within(t), connect(t, b), ledger.Catalog, &apiv1.AboutRequest{})
	if err != nil || r.GetPosition() != 42 {
		t.Errorf("%v (%v), want position 42", r, err)
	}
}

// A call may wait inside something that waits for an hour. When its answer is lost, as when the bus restarts, only the
// one call must fail.
func TestACallEndsAfterItsTimeoutHoweverLongTheCallerMayWait(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	answer(t, serve(t, b, ledger.Registry), "GetServer",
		func(*registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
			time.Sleep(time.Second)
			return &registryv1.GetServerResponse{}, nil
		})
	c := client.New(b.Dial(t, "ann"), 100*time.Millisecond)
	if _, err := c.Server(within(t), "web-1"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v, want Unavailable", err)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := c.Server(ctx, "web-1"); !errors.Is(err, gone) {
		t.Errorf("%v, want the cause of the caller's end", err)
	}
}

func TestWhatTheBusForbidsFailsAtOnceAndNothingElseDoes(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	who, err := g.Authority.Person("vic", topology.Viewer, g.URL, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	registry := g.Service(t, topology.UserRegistry)
	service, err := registry.NewService(ledger.Registry, "v1.0.0", client.Services[ledger.Registry])
	if err != nil {
		t.Fatal(err)
	}
	if err := facts.Serve(service, registry); err != nil {
		t.Fatal(err)
	}
	c, err := client.Connect(within(t), client.Options{Context: who, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	allowed := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := c.Server(ctx, "web-1") // no registry answers
		allowed <- err
	}()
	intent := &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{}}}
	_, created := client.Call[*registryv1.PutRecordResponse](within(t), c,
		record.Create(&agentv1.Agent{Name: "beacon"}))
	for what, err := range map[string]error{
		"an intent": c.Publish(within(t), client.NewID(), intent), "a call": created,
	} {
		if !fault.Is(err, fault.Denied) || fault.RefusalOf(err).GetCode() != "DENIED" {
			t.Errorf("%s: %v, want DENIED", what, err)
		}
	}
	if n, err := c.LedgerEnd(within(t)); err != nil || n != 0 {
		t.Errorf("a viewer reads the ledger up to %d (%v), want the end of an empty one", n, err)
	}
	cancel()
	if err := <-allowed; fault.Is(err, fault.Denied) {
		t.Errorf("an allowed call failed with %v", err)
	}
}

func TestConnectNamesABusThatIsUnreachableAndALoginThatIsRefused(t *testing.T) {
	t.Parallel()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	who := trust.Context{URL: "nats://" + freeport.Address(port), Actor: "ann"}
	_, err = client.Connect(within(t), client.Options{Context: who})
	if fault.RefusalOf(err).GetCode() != "BUS_AWAY" {
		t.Errorf("%v, want BUS_AWAY", err)
	}
	_, err = client.Connect(within(t), client.Options{Dial: func(bus.Options) (*bus.Conn, error) {
		return nil, fault.New(fault.Denied, "authorization violation")
	}})
	if fault.RefusalOf(err).GetCode() != "LOGIN_REFUSED" {
		t.Errorf("%v, want LOGIN_REFUSED", err)
	}
}

// The bus is away for a while, which its client hears of, and then takes what was asked before it came back.
func TestWhatIsAskedWhileTheBusIsAwayIsDoneWhenItIsBack(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	registry := b.Dial(t, ledger.Registry)
	s, err := registry.NewService(ledger.Registry, "v1.0.0", client.Services[ledger.Registry])
	if err != nil {
		t.Fatal(err)
	}
	if err := facts.Serve(s, registry); err != nil {
		t.Fatal(err)
	}
	err = bus.Handle(s, "PutRecord", func(
		context.Context, bus.Caller, *registryv1.PutRecordRequest,
	) (*registryv1.PutRecordResponse, error) {
		return &registryv1.PutRecordResponse{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	asks := map[string]func(context.Context, *client.Client) error{
		"an intent": func(ctx context.Context, c *client.Client) error {
			return c.Publish(ctx, client.NewID(), refresh())
		},
		"a read": func(ctx context.Context, c *client.Client) error {
			_, err := c.LedgerEnd(ctx)
			return err
		},
		"a write": func(ctx context.Context, c *client.Client) error {
			_, err := client.Call[*registryv1.PutRecordResponse](ctx, c, record.Create(&agentv1.Agent{}))
			return err
		},
	}
	waits, ends := make(chan string, len(asks)), make(chan error, len(asks))
	clients := map[string]*client.Client{}
	for name := range asks {
		clients[name] = client.New(b.Dial(t, "ann"), 5*time.Second)
		clients[name].OnWait(func(time.Duration, error) { waits <- name })
	}
	b.Restart(t, func(string) {
		for name, ask := range asks {
			go func() {
				if err := ask(within(t), clients[name]); err != nil {
					ends <- fmt.Errorf("%s: %w", name, err)
				}
				ends <- nil
			}()
		}
		for range asks {
			<-waits
		}
	})
	for range asks {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
}
