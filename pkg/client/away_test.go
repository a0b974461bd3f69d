package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

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
	err = bus.Handle(s, "CreateAgent", func(
		context.Context, bus.Caller, *registryv1.CreateAgentRequest,
	) (*registryv1.CreateAgentResponse, error) {
		return &registryv1.CreateAgentResponse{}, nil
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
			_, err := client.Call[*registryv1.CreateAgentResponse](ctx, c, &registryv1.CreateAgentRequest{})
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
