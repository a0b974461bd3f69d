package registry

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// fetched is the facts of a task that fetches ahead what a rollout brings a server, in so far as it ended.
func fetched(t *rolloutv1.Target, end proto.Message) []ledger.Draft {
	id := ident.From("ahead", t.ServerId)
	ahead := &imagev1.Ahead{Image: t.Changes[0].To}
	return []ledger.Draft{
		fact(ledger.Task, id, &taskv1.Queued{
			Verb: taskv1.Verb_VERB_REFRESH, ServerId: t.ServerId, Generation: 1, Attempt: 1, Ahead: ahead,
		}),
		fact(ledger.Task, id, &taskv1.Assigned{}), fact(ledger.Task, id, &taskv1.Started{}), fact(ledger.Task, id, end),
	}
}

func TestARolloutThatWaitsHasItsServersFetchAheadAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 4)
	s.frozen()
	must[*registryv1.ChangeEnvironmentResponse](s, "ChangeEnvironment",
		&registryv1.ChangeEnvironmentRequest{Environment: &environmentv1.Environment{
			Name: "prod", FetchAlways: true,
			Freezes: []*environmentv1.Freeze{{Until: timestamppb.New(time.Now().Add(24 * time.Hour))}},
		}})
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout",
		&registryv1.PlanRolloutRequest{Intent: waves(&rolloutv1.Strategy{})})
	if plan.Closed != 4 || plan.Primed != 4 {
		t.Errorf("%d servers are closed and %d fetch ahead; want 4 and 4", plan.Closed, plan.Primed)
	}
	id := s.accepted(topology.VerbRollout, waves(&rolloutv1.Strategy{})).Id
	s.eventually("the servers of all waves are asked to fetch ahead", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetPrimed() == 4
	})
	var drafts []ledger.Draft
	s.r.follower.Read(func() {
		for x := range s.r.records.View.Targets(id, "") {
			end := proto.Message(&taskv1.Succeeded{})
			if len(drafts) == 0 {
				end = &taskv1.Failed{Outcome: &taskv1.Outcome{Code: code.NoSpace, Reason: "the disk is full"}}
			}
			drafts = append(drafts, fetched(x, end)...)
		}
	})
	s.append(drafts...)
	s.eventually("they ended", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetFetchedAhead() == 3 && r.GetNotFetchedAhead() == 1
	})
	asked := 0
	for _, f := range s.facts(ledger.Intent, "*") {
		a, ok := f.Body.(*intentv1.Accepted)
		if ahead := a.GetIntent().GetRefresh().GetAhead(); ok && ahead != nil {
			asked += len(a.ServerIds)
			if keeps := time.Until(ahead.KeepUntil.AsTime()); keeps < 7*24*time.Hour || keeps > 9*24*time.Hour {
				t.Errorf("it is kept for %s", keeps)
			}
		}
	}
	if asked != 4 || s.versions()["1.1.0"] != 0 {
		t.Errorf("%d servers were asked; versions %v", asked, s.versions())
	}
	s.thawed()
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	replay := must[*registryv1.ReplayRolloutResponse](s, "ReplayRollout",
		&registryv1.ReplayRolloutRequest{RolloutId: id})
	if replay.Recorded == 0 || replay.Same != replay.Recorded {
		t.Errorf("of %d decisions %d are the same: %v", replay.Recorded, replay.Same, replay.Decisions)
	}
}
