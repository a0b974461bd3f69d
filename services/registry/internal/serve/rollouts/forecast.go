package rollouts

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout/forecast"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

const (
	usualRuns = 100
	mostRuns  = 1000
	// mostSimulated bounds the servers of all runs together.
	mostSimulated = 500_000
)

// Forecast runs a rollout against the fleet as it is, in virtual time.
func (p *Past) Forecast(
	ctx context.Context, c bus.Caller, q *registryv1.ForecastRolloutRequest,
) (*registryv1.ForecastRolloutResponse, error) {
	switch {
	case q.Intent.GetRollout() == nil:
		return nil, request.Invalid(code.Malformed, "the intent is no rollout")
	case q.Runs > mostRuns:
		return nil, request.Invalid(code.Malformed, "%d runs are asked for; %d are the most", q.Runs, mostRuns)
	case q.BrokenPermille > 1000:
		return nil, request.Invalid(code.Malformed, "%d ‰ of the servers cannot break", q.BrokenPermille)
	}
	end, err := p.TakeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return p.foretell(ctx, c, q)
}

// foretell is forecast once it is its turn.
func (p *Past) foretell(
	ctx context.Context, c bus.Caller, q *registryv1.ForecastRolloutRequest,
) (*registryv1.ForecastRolloutResponse, error) {
	past, err := p.lookup.Undone(ctx, q.Intent)
	if err != nil {
		return nil, err
	}
	w, plan, err := p.world(c, q, past)
	if err != nil {
		return nil, err
	}
	learnt, err := p.learnt(ctx)
	if err != nil {
		return nil, err
	}
	runs := int(q.Runs)
	if runs == 0 {
		runs = usualRuns
	}
	return outlook(ctx, w, learnt.like(plan.changes, plan.bad), max(1, min(runs, mostSimulated/max(1, len(w.Servers)))))
}

// outlook runs a world with what was learnt.
func outlook(
	ctx context.Context, w forecast.World, learnt lessons, runs int,
) (*registryv1.ForecastRolloutResponse, error) {
	w.Durations, w.Fails = learnt.durations, learnt.fails
	resp := &registryv1.ForecastRolloutResponse{
		Tasks: learnt.tasks, FailedPermille: uint32(learnt.fails * 1000),
		Busy: uint32(w.Busy), Beside: uint32(w.Beside),
	}
	o, err := forecast.Runs(ctx.Done(), w, runs)
	if err != nil {
		return nil, err
	}
	resp.Runs, resp.Succeeded, resp.Halted = uint32(o.Runs), uint32(o.Succeeded), uint32(o.Halts)
	resp.Slots = uint32(min(w.Slots, o.AtOnce))
	resp.Took_50, resp.Took_90 = durationpb.New(o.Took50), durationpb.New(o.Took90)
	resp.Halted_50, resp.Halted_90 = durationpb.New(o.Halted50), durationpb.New(o.Halted90)
	resp.Touched_50, resp.Touched_90 = uint32(o.Touched50), uint32(o.Touched90)
	resp.Broken_50, resp.Broken_90 = uint32(o.Broken50), uint32(o.Broken90)
	resp.HaltedIn, resp.HaltedBecause = map[uint32]uint32{}, map[string]uint32{}
	for wave, n := range o.HaltedIn {
		resp.HaltedIn[wave] = uint32(n)
	}
	for why, n := range o.Why {
		resp.HaltedBecause[why] = uint32(n)
	}
	return resp, nil
}

// foretold is what the failures of a rollout are foretold from.
type foretold struct {
	changes map[like]bool   // the kinds of its changes
	bad     map[string]bool // the images of builds that are blocked, or that failed and work on no server, by id
}

// foretold returns what the failures of a plan are foretold from. It must run inside Read.
func (p *Past) foretold(plan rolling.Planned) foretold {
	f := foretold{map[like]bool{}, map[string]bool{}}
	for _, t := range plan.Targets {
		for _, c := range t.Changes {
			f.changes[likeOf(c.From, c.To, !c.Repair && c.FromConfiguration != c.ToConfiguration)] = true
		}
	}
	for _, b := range p.records.View.Blocks("") {
		f.bad[b.GetBuild().GetImage().GetId()] = true
	}
	for _, s := range p.records.View.Suspects() {
		if s.Working == 0 {
			f.bad[s.GetBuild().GetImage().GetId()] = true
		}
	}
	return f
}

// world returns the servers that a rollout would change now, as a world. It returns the refusal of the plan.
func (p *Past) world(
	c bus.Caller, q *registryv1.ForecastRolloutRequest, undone *intentv1.Record,
) (w forecast.World, of foretold, err error) {
	in := proto.CloneOf(q.Intent)
	w = forecast.World{
		ID: "forecast", Seed: max(q.Seed, 1), Slots: p.slots,
		Fault: forecast.Fault{Share: float64(q.BrokenPermille) / 1000, Late: 0.5},
	}
	p.records.Follower.Read(func() {
		plan := rolling.Plan(p.records.View, intent.Ask{
			Actor: c.Actor, Verb: topology.VerbRollout, Intent: in, At: p.records.Now(), Secrets: p.records.Secrets,
			Wrong: p.records.SealedWrong(in), Undone: undone,
		})
		if plan.Refusal != nil {
			err = fault.Refuse(fault.Invalid, plan.Refusal)
			return
		}
		w.Strategy, w.Undoes = proto.CloneOf(plan.Strategy), plan.Undoes
		stages, why := rolling.Stages(p.records.View, w.Strategy)
		if why != nil {
			err = fault.Refuse(fault.Invalid, why)
			return
		}
		for _, t := range plan.Targets {
			s, _ := p.records.View.Server(t.ServerId)
			w.Servers = append(w.Servers, forecast.Server{
				Candidate: rollout.Candidate{
					ServerID: t.ServerId, Fields: rolling.Fields(s), Owed: t.Wave == 0, Stages: stages(s),
				},
				Dead: t.Wave == 0, Steps: forecast.StepsOf(t),
			})
		}
		w.Begin, of = plan.Begins(p.records.Now()), p.foretold(plan)
		p.takeOthers(&w, in.GetRollout().GetUndoOf())
	})
	return w, of, err
}
