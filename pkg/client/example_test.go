package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
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
