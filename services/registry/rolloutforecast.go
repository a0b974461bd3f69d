package registry

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout/forecast"
)

const (
	usualRuns = 100
	mostRuns  = 1000
	// mostSimulated bounds the servers of all runs together.
	mostSimulated = 500_000
	// learnFrom is how far back durations are read, and mostLearnt how many tasks of each outcome.
	learnFrom  = 7 * 24 * time.Hour
	mostLearnt = 2000
	// assumed is how long a change takes before any was recorded.
	assumed = 20 * time.Second
)

// forecast runs a rollout against the fleet as it is, in virtual time.
func (p *rolloutPast) forecast(
	ctx context.Context, c bus.Caller, q *registryv1.ForecastRolloutRequest,
) (*registryv1.ForecastRolloutResponse, error) {
	if q.Intent.GetRollout() == nil || q.Runs > mostRuns || q.BrokenPermille > 1000 {
		return nil, invalid(code.Malformed, "a forecast needs a rollout, at most %d runs and at most 1,000 ‰", mostRuns)
	}
	end, err := p.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	w, err := p.world(c, q)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ForecastRolloutResponse{}
	if err := p.learn(ctx, &w, resp); err != nil {
		return nil, err
	}
	runs := int(q.Runs)
	if runs == 0 {
		runs = usualRuns
	}
	runs = max(1, min(runs, mostSimulated/max(1, len(w.Servers))))
	o, err := forecast.Runs(ctx.Done(), w, runs)
	if err != nil {
		return nil, err
	}
	resp.Runs, resp.Succeeded, resp.Halted = uint32(o.Runs), uint32(o.Succeeded), uint32(o.Halts)
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

// world returns the servers that a rollout would change now, as a world. It returns the refusal of the plan.
func (p *rolloutPast) world(c bus.Caller, q *registryv1.ForecastRolloutRequest) (w forecast.World, err error) {
	in := proto.CloneOf(q.Intent)
	w = forecast.World{
		ID: "forecast", Seed: max(q.Seed, 1), Fault: forecast.Fault{Share: float64(q.BrokenPermille) / 1000, Late: 0.5},
	}
	p.records.follower.Read(func() {
		plan := rolling.Plan(p.records.view, intent.Ask{
			Actor: c.Actor, Verb: topology.VerbRollout, Intent: in, At: p.records.now(), Secrets: p.records.secrets,
			Wrong: p.records.sealedWrong(in),
		})
		if plan.Refusal != nil {
			err = fault.Refuse(fault.Invalid, plan.Refusal)
			return
		}
		w.Strategy = proto.CloneOf(plan.Strategy)
		for _, t := range plan.Targets {
			s, _ := p.records.view.Server(t.ServerId)
			w.Servers = append(w.Servers, forecast.Server{
				Candidate: rollout.Candidate{ServerID: t.ServerId, Fields: rolling.Fields(s), Owed: t.Wave == 0},
				Dead:      t.Wave == 0,
			})
		}
	})
	return w, err
}

// learn takes durations and the share of failures from the ends of tasks that the ledger recorded lately.
func (p *rolloutPast) learn(ctx context.Context, w *forecast.World, resp *registryv1.ForecastRolloutResponse) error {
	since, failed := p.records.now().Add(-learnFrom), 0
	for _, name := range []string{"succeeded", "failed", "undone"} {
		var err error
		n := 0
		for f := range p.facts(ctx, ledger.FactSubject(ledger.Task, "*", name), since, &err) {
			if n++; n > mostLearnt {
				break
			}
			ok, isEnd := f.Body.(*taskv1.Succeeded)
			if resp.Tasks++; !isEnd {
				failed++
				continue
			}
			var took time.Duration
			for _, step := range ok.GetOutcome().GetSteps() {
				took += step.GetTook().AsDuration()
			}
			if took > 0 {
				w.Durations = append(w.Durations, took)
			}
		}
		if err != nil {
			return err
		}
	}
	if len(w.Durations) == 0 {
		w.Durations = []time.Duration{assumed}
	}
	if resp.Tasks > 0 {
		w.Fails = float64(failed) / float64(resp.Tasks)
		resp.FailedPermille = uint32(failed * 1000 / int(resp.Tasks))
	}
	return nil
}
