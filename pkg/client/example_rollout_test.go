package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

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
