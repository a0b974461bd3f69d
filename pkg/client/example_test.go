package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// installBeacon asks for beacon 1.0.0 on every server.
func installBeacon() *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Install{Install: &intentv1.Install{
		Agent: "beacon",
		Image: &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: "1.0.0"}},
		On:    &intentv1.Selector{All: true},
	}}}
}

// Install an agent on every server, and wait until it runs there. proto/INTENTS.md shows this example.
func ExampleClient_Submit() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c, err := client.Open(ctx, os.Getenv("GARRISON_CONTEXT"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	r, err := c.Submit(ctx, &intentv1.Intent{Ask: &intentv1.Intent_Install{Install: &intentv1.Install{
		Agent: "beacon",
		Image: &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: "1.0.0"}},
		On:    &intentv1.Selector{All: true},
	}}})
	if err != nil {
		log.Fatalf("intent %s: %v", r.GetId(), err)
	}
	for p, err := range c.Watch(ctx, 20, r.GetId()) {
		if fault.Is(err, fault.Unavailable) {
			continue // the service restarts
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(p[0].GetCounts().GetSucceeded(), "of", r.GetChanged())
	}
}

// Show what an intent would do, and do exactly that.
func ExampleClient_Plan() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Open(ctx, "operator.json")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	p, err := c.Plan(ctx, &registryv1.PlanIntentRequest{Intent: installBeacon()}, 0)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range p.GetTargets() {
		fmt.Println(t.GetServerName(), t.GetFrom().GetVersion(), "→", t.GetTo().GetVersion(), t.GetReason().GetCode())
	}
	_, err = c.Submit(ctx, p.GetPlans()[0].GetIntent()) // with the guard of the plan
	if fault.RefusalOf(err).GetCode() == "PLAN_STALE" {
		log.Fatal("the fleet changed since the plan was shown: ", err)
	}
}

// List servers. The service filters and pages; the loop may end early.
func ExampleClient_Servers() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Open(ctx, "operator.json")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	q := &registryv1.ListServersRequest{Environment: "prod", Presence: serverv1.Presence_PRESENCE_OFFLINE}
	for s, err := range c.Servers(ctx, q) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s.GetName(), s.GetReason())
	}
}

// Read the event stream, and resume it where the last run of the program stopped.
func ExampleClient_Follow() {
	ctx := context.Background()
	c, err := client.Open(ctx, "operator.json")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	stored := func() client.Position { return client.Position{} } // as the program keeps it
	keep := func(client.Position) {}

	q := client.Query{Noun: ledger.Task, After: stored()}
	for {
		for e, err := range c.Follow(ctx, q) {
			if reset, ok := errors.AsType[*client.ResetError](err); ok {
				fmt.Println("start over:", reset)
				q.After, q.From = client.Position{}, reset.Next
				break
			}
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(e.Sequence, e.Noun, e.Key, e.Name(), e.Actor)
			keep(e.Position())
		}
	}
}

// Call any method of a service with its request message.
func ExampleCall() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Open(ctx, "operator.json")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	q := &registryv1.InviteServerRequest{Name: "web-1"}
	invited, err := client.Call[*registryv1.InviteServerResponse](ctx, c, q)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(invited.GetToken())
}

// Plan a rollout in two waves, do exactly that, follow it, and take it back when it halts.
func ExampleClient_StartRollout() {
	e := &example{}
	defer e.end()
	b := bustest.Start(e)
	registryWithARollout(e, b) // in place of a registry
	c := connect(e, b)         // client.Open with a context file, in a program
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()

	up := &intentv1.Upgrade{Agent: "beacon", Image: &intentv1.ImageChoice{
		By: &intentv1.ImageChoice_Version{Version: "2.0.0"},
	}}
	p, err := c.PlanRollout(ctx, &registryv1.PlanRolloutRequest{
		Intent: &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{
			Steps: []*intentv1.Step{{Change: &intentv1.Step_Upgrade{Upgrade: up}}},
			On:    &intentv1.Selector{All: true},
			Strategy: &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{
				{Size: &rolloutv1.Stage_Percent{Percent: 10}},
			}},
		}}},
	}, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.GetTitle(), "in waves of", p.GetWaves())
	id, err := c.StartRollout(ctx, p.GetIntent()) // with the guard of the plan
	if err != nil {
		log.Fatal(err)
	}
	for r, err := range c.WatchRollout(ctx, id) {
		if fault.Is(err, fault.Unavailable) {
			continue // the registry restarts
		}
		if err != nil {
			log.Fatal(err)
		}
		if r.GetRollout().GetState() == rolloutv1.State_STATE_HALTED {
			fmt.Println("halted:", r.GetRollout().GetReason().GetMessage())
			if _, err := c.UndoRollout(ctx, id, nil); err != nil {
				log.Fatal(err)
			}
			fmt.Println("is taken back")
		}
	}
	// Output:
	// upgrade beacon to 2.0.0 in waves of [1 9]
	// halted: 1 server is newly broken
	// is taken back
}

// registryWithARollout answers as a registry does whose rollout halts in the first wave.
func registryWithARollout(e *example, b *bustest.Bus) {
	registry := serve(e, b, ledger.Registry)
	answer(e, registry, "PlanRollout", func(q *registryv1.PlanRolloutRequest) (*registryv1.PlanRolloutResponse, error) {
		return &registryv1.PlanRolloutResponse{
			Intent: q.Intent, Title: "upgrade beacon to 2.0.0", Waves: []uint32{1, 9},
		}, nil
	})
	answer(e, registry, "GetIntent", func(q *registryv1.GetIntentRequest) (*registryv1.GetIntentResponse, error) {
		accepted := &intentv1.Record{Id: q.IntentId, State: intentv1.State_STATE_ACCEPTED}
		return &registryv1.GetIntentResponse{Intent: accepted}, nil
	})
	answer(e, registry, "GetRollout", func(q *registryv1.GetRolloutRequest) (*registryv1.GetRolloutResponse, error) {
		return &registryv1.GetRolloutResponse{Rollout: &rolloutv1.Rollout{
			Id: q.RolloutId, State: rolloutv1.State_STATE_HALTED,
			Reason: &apiv1.Refusal{Code: "TOO_MANY_BROKEN", Message: "1 server is newly broken"},
		}}, nil
	})
}
