package rollouts

import (
	"context"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

const (
	// mostReplayed is how many decisions an answer lists.
	mostReplayed = 1000
	// readFacts and readBytes bound one read of the ledger.
	readFacts = 500
	readBytes = 4 << 20
)

// Past makes decisions of the past again, and those of the future for the first time. Both take memory and
// processor time by the size of the fleet, so one request at a time is served.
type Past struct {
	*API
	conn  *bus.Conn
	slots int           // how many tasks the task-dispatcher has under way at once
	turn  chan struct{} // holds an element while a request is served

	lessons   learning
	outlooks  outlooks
	replaying replaying
}

// NewPast returns what replays and forecasts rollouts, for a task-dispatcher that has so many tasks under way at once.
func NewPast(rollouts *API, conn *bus.Conn, slots int) *Past {
	return &Past{
		API: rollouts, conn: conn, slots: slots, turn: make(chan struct{}, 1),
		lessons: learning{turn: make(chan struct{}, 1)}, outlooks: outlooks{last: map[string]rest{}},
	}
}

// TakeTurn waits for the turn of a request, until ctx is done.
func (p *Past) TakeTurn(ctx context.Context) (end func(), err error) {
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, nil
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "another replay or forecast is under way: %w", ctx.Err())
	}
}

// tryTurn takes the turn of a request if no other is served. The plan and the state of a rollout do not wait for it.
func (p *Past) tryTurn() (end func(), ok bool) {
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, true
	default:
		return nil, false
	}
}

// replayView is a view that makes decisions again between the facts that it folds.
type replayView struct {
	*view.View
	rollout string
	replay  *rollout.Replay
	read    *atomic.Uint64 // the sequence of the last fact
}

// Apply makes the decisions that rested on the facts before f, and folds f.
func (v replayView) Apply(f ledger.Fact) bool {
	v.read.Store(f.Sequence)
	v.replay.Before(f.Sequence, func(b *rolloutv1.Basis) rollout.Decision {
		r, ok := v.Rollout(v.rollout)
		if !ok {
			return rollout.Decision{}
		}
		return rollout.Decide(rolling.Input(v.View, r, b))
	})
	return v.View.Apply(f)
}

// Replayed makes every recorded decision about a rollout again. The ledger is read from its beginning, which may take
// longer than a request waits: for one that polls it goes on while requests for it come.
func (p *Past) Replayed(
	ctx context.Context, _ bus.Caller, q *registryv1.ReplayRolloutRequest,
) (*registryv1.ReplayRolloutResponse, error) {
	var id string
	var err error
	p.records.Follower.Read(func() {
		var r *rolloutv1.Rollout
		r, err = p.find(q.RolloutId)
		id = r.GetId()
	})
	if err != nil {
		return nil, err
	}
	if q.Poll {
		return p.replaying.poll(ctx, id, p.replay)
	}
	return p.replay(ctx, &progress{rollout: id})
}

// replay makes every recorded decision about a rollout again once it is its turn.
func (p *Past) replay(ctx context.Context, at *progress) (*registryv1.ReplayRolloutResponse, error) {
	end, err := p.TakeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	replay := rollout.NewReplay(p.facts(ctx, ledger.KeySubject(ledger.Rollout, at.rollout), time.Time{}, &err))
	if err != nil {
		return nil, err
	}
	if replay.End() > 0 {
		at.until.Store(replay.End())
		world := replayView{View: view.New(), rollout: at.rollout, replay: replay, read: &at.read}
		o := fold.Options{Service: ledger.Registry, Layout: view.Layout, Nouns: view.Nouns, Log: p.log}
		if _, err := fold.RebuildTo(ctx, p.conn, world, o, replay.End()); err != nil {
			return nil, err
		}
	}
	return replayAnswer(at.rollout, replay.Steps()), nil
}

func replayAnswer(id string, steps []rollout.Replayed) *registryv1.ReplayRolloutResponse {
	resp := &registryv1.ReplayRolloutResponse{RolloutId: id, Recorded: uint32(len(steps))}
	for _, s := range steps {
		if s.Same {
			resp.Same++
		}
		resp.Decisions = append(resp.Decisions, &registryv1.ReplayedDecision{
			Sequence: s.Fact.Sequence, Basis: s.Basis(), Recorded: s.Words(), Decided: s.Decided.Words(), Same: s.Same,
		})
	}
	if len(resp.Decisions) > mostReplayed {
		slices.SortStableFunc(resp.Decisions, func(a, b *registryv1.ReplayedDecision) int {
			switch {
			case a.Same == b.Same:
				return 0
			case b.Same:
				return -1
			}
			return 1
		})
		resp.Decisions = resp.Decisions[:mostReplayed]
	}
	return resp
}

// facts reads facts from the ledger, of one filter and since a time; the zero time means all of them. It sets err when
// it ends early.
func (p *Past) facts(ctx context.Context, filter string, since time.Time, err *error) iter.Seq[ledger.Fact] {
	return func(yield func(ledger.Fact) bool) {
		part := bus.Part{Filter: filter, Since: since, Count: readFacts, Bytes: readBytes}
		for more := true; more; {
			var found []bus.Message
			if found, more, *err = p.conn.DirectGetPart(ctx, topology.Ledger, part); *err != nil {
				return
			}
			for _, m := range found {
				f, decodeErr := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence)
				if decodeErr == nil && !yield(f) { // this program decided on no fact that it cannot read
					return
				}
				part.From, part.Since = m.Sequence+1, time.Time{}
			}
			more = more && len(found) > 0
		}
	}
}
