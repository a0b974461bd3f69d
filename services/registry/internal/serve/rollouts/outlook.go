package rollouts

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout/forecast"
)

const (
	// outlookRuns is how many runs a plan and the rest of a rollout are computed from, and outlookServers bounds their
	// servers together: a second or two of one processor. A rollout of more servers is answered without.
	outlookRuns    = 20
	outlookServers = 50_000
	// outlookWithin bounds the wait for them, well within the time that clients wait: the answer comes without.
	outlookWithin = 2 * time.Second
	// OutlookFor is how long the rest of a rollout is not computed again.
	OutlookFor = 10 * time.Second
	// OutlookStale is how long it is still answered while something else is computed.
	OutlookStale = time.Minute
	// SlowTimes is how many times the median a server takes to be called slow.
	SlowTimes = 3
	// mostSlow is how many slow servers are named, and fewSeen how many servers of a rollout are enough for a median.
	mostSlow, fewSeen, mostSeen = 10, 5, 500
)

// outlooks keeps how long rollouts go on, by id. It is safe for concurrent use.
type outlooks struct {
	mu   sync.Mutex
	last map[string]rest
}

// rest is how long a rollout goes on.
type rest struct {
	at         time.Time // when it was computed
	left50     time.Duration
	left90     time.Duration
	isComputed bool // false when no run succeeded
}

// PlanAhead is plan with how long the rollout would take, when it is asked for.
func (p *Past) PlanAhead(
	ctx context.Context, c bus.Caller, q *registryv1.PlanRolloutRequest,
) (*registryv1.PlanRolloutResponse, error) {
	resp, err := p.plan(ctx, c, q)
	if err != nil || !q.Forecast || resp.Refusal != nil || resp.Title == "" || resp.Intent.GetRollout().UndoOf != "" {
		return resp, err
	}
	servers := max(1, planned(resp))
	if servers > outlookServers {
		return resp, nil
	}
	end, ok := p.tryTurn()
	if !ok {
		return resp, nil
	}
	defer end()
	once, cancel := context.WithTimeout(ctx, outlookWithin)
	defer cancel()
	in := proto.CloneOf(resp.Intent)
	in.Guard = nil
	ahead, err := p.foretell(once, c, &registryv1.ForecastRolloutRequest{
		Intent: in, Runs: uint32(min(outlookRuns, outlookServers/servers)),
	})
	if err != nil || ahead.Runs == 0 {
		p.log.Debug().Err(err).Msg("a plan without a forecast")
		return resp, nil
	}
	resp.Forecast = ahead
	return resp, nil
}

func planned(p *registryv1.PlanRolloutResponse) int {
	n := int(p.Owed)
	for _, wave := range p.Waves {
		n += int(wave)
	}
	return n
}

// GetAhead is get with the servers that take long, and with how long the rollout goes on when that is asked for.
func (p *Past) GetAhead(
	ctx context.Context, c bus.Caller, q *registryv1.GetRolloutRequest,
) (*registryv1.GetRolloutResponse, error) {
	resp, err := p.get(ctx, c, q)
	if err != nil {
		return nil, err
	}
	once, cancel := context.WithTimeout(ctx, outlookWithin)
	defer cancel()
	learnt, err := p.learnt(once)
	if err != nil { // the rest of the answer does not depend on it
		p.log.Debug().Err(err).Msg("no durations of tasks")
		return resp, nil
	}
	id := resp.Rollout.Id
	p.records.Follower.Read(func() { p.slow(resp, id, learnt.all) })
	if !q.Forecast || resp.Rollout.State != rolloutv1.State_STATE_RUNNING {
		return resp, nil
	}
	if r := p.rest(once, id, learnt.all); r.isComputed {
		resp.Left_50, resp.Left_90 = durationpb.New(r.left50), durationpb.New(r.left90)
	}
	return resp, nil
}

// slow adds the servers under way that take long. It must run inside Read.
func (p *Past) slow(resp *registryv1.GetRolloutResponse, id string, learnt lessons) {
	now, median := p.records.Now(), p.median(id, learnt)
	var slow []*registryv1.SlowServer
	for t := range p.records.View.TargetsOf(id, rolloutv1.TargetState_TARGET_STATE_REACHED) {
		took := now.Sub(t.TakenAt.AsTime())
		if t.TakenAt == nil || took <= SlowTimes*median {
			continue
		}
		at := p.stepOf(t)
		slow = append(slow, &registryv1.SlowServer{
			ServerId: t.ServerId, ServerName: p.row(t).ServerName, Agent: at.agent, Step: at.name,
			Took: durationpb.New(took), Median: durationpb.New(median),
		})
	}
	slices.SortStableFunc(slow, func(a, b *registryv1.SlowServer) int {
		return cmp.Or(cmp.Compare(b.Took.AsDuration(), a.Took.AsDuration()), cmp.Compare(a.ServerId, b.ServerId))
	})
	resp.SlowCount, resp.Slow = uint32(len(slow)), slow[:min(mostSlow, len(slow))]
}

// median returns how long a server takes in the median: of those that succeeded in this rollout, once they are enough.
func (p *Past) median(id string, learnt lessons) time.Duration {
	var seen []time.Duration
	for t := range p.records.View.TargetsOf(id, rolloutv1.TargetState_TARGET_STATE_SUCCEEDED) {
		if t.TakenAt != nil {
			seen = append(seen, t.Since.AsTime().Sub(t.TakenAt.AsTime()))
		}
		if len(seen) == mostSeen {
			break
		}
	}
	if len(seen) < fewSeen {
		return max(time.Second, learnt.median())
	}
	slices.Sort(seen)
	return max(time.Second, seen[len(seen)/2])
}

// rest returns how long a rollout goes on. It is computed by one request at a time, and kept for a while: a request
// does not wait for another.
func (p *Past) rest(ctx context.Context, id string, learnt lessons) rest {
	last := p.outlooks.of(id)
	age := p.records.Now().Sub(last.at)
	if age < OutlookFor {
		return last
	}
	if end, ok := p.tryTurn(); ok {
		defer end()
		return p.compute(ctx, id, learnt)
	}
	if age < OutlookStale {
		return last
	}
	return rest{}
}

// compute computes how long a rollout goes on, and keeps it.
func (p *Past) compute(ctx context.Context, id string, learnt lessons) (next rest) {
	w, ok := p.onItsWay(id, p.records.Now())
	if ok {
		w.Durations, w.Fails = learnt.durations, 0 // a halt has no end
		runs := min(outlookRuns, outlookServers/max(1, len(w.Servers)))
		if o, err := forecast.Runs(ctx.Done(), w, runs); err == nil && o.Succeeded > 0 {
			next.left50, next.left90, next.isComputed = o.Took50, o.Took90, true
		}
	}
	next.at = p.records.Now()
	p.outlooks.keep(id, next)
	return next
}

func (o *outlooks) of(id string) rest {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last[id]
}

func (o *outlooks) keep(id string, r rest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.last) >= mostPast {
		clear(o.last)
	}
	o.last[id] = r
}

// onItsWay returns a rollout as it is, as a world; false when it has too many servers.
func (p *Past) onItsWay(id string, now time.Time) (w forecast.World, ok bool) {
	w = forecast.World{ID: id, Seed: 1, From: &forecast.Point{Now: now}, Slots: p.slots}
	p.records.Follower.Read(func() {
		r, _ := p.records.View.Rollout(id)
		n := 0
		for range p.records.View.Targets(id, "") {
			n++
		}
		if ok = n <= outlookServers; !ok {
			return
		}
		w.From.Rollout = proto.CloneOf(r)
		for t := range p.records.View.Targets(id, "") {
			s, _ := p.records.View.Server(t.ServerId)
			w.From.Targets = append(w.From.Targets, proto.CloneOf(t))
			w.From.Queued = append(w.From.Queued, p.waits(t))
			w.Servers = append(w.Servers, forecast.Server{
				Candidate: rollout.Candidate{ServerID: t.ServerId, Fields: rolling.Fields(s), Owed: t.Wave == 0},
				Dead:      s.GetPresence() == serverv1.Presence_PRESENCE_OFFLINE,
				Steps:     forecast.StepsOf(t),
			})
		}
		p.takeOthers(&w, id)
	})
	w.Strategy = w.From.Rollout.GetStrategy()
	return w, ok
}
