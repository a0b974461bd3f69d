package rollouts

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	// pollWithin is how long a request that polls waits for the end of a replay: less than its client does.
	pollWithin = 2 * time.Second
	// pollAgain is how long a replay goes on, and what came of it is kept, without a request for it.
	pollAgain = 30 * time.Second
)

// progress is how far a replay is.
type progress struct {
	rollout     string
	read, until atomic.Uint64 // sequences of the ledger; until is 0 before it is known
}

// replayer runs a replay, and notes how far it is.
type replayer func(context.Context, *progress) (*registryv1.ReplayRolloutResponse, error)

// background is a replay that goes on between the requests for it.
type background struct {
	progress
	idle  *time.Timer   // ends it
	ended chan struct{} // closed once resp and err are set
	resp  *registryv1.ReplayRolloutResponse
	err   error
}

// replaying is the replay for which requests poll, one at a time.
type replaying struct {
	mu   sync.Mutex
	last *background // nil before the first one, and when it was not asked for
}

// poll waits for the end of the replay of a rollout, and begins one unless it is under way. Before its end it returns
// how far it is.
func (p *replaying) poll(
	ctx context.Context, rollout string, run replayer,
) (*registryv1.ReplayRolloutResponse, error) {
	b, err := p.join(rollout, run)
	if err != nil {
		return nil, err
	}
	wait := time.NewTimer(pollWithin)
	defer wait.Stop()
	select {
	case <-b.ended:
		return b.resp, b.err
	case <-wait.C:
		return &registryv1.ReplayRolloutResponse{
			RolloutId: rollout, Read: b.read.Load(), ReadUntil: max(b.until.Load(), 1),
		}, nil
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "the replay goes on: %w", ctx.Err())
	}
}

// join returns the replay of a rollout that is under way or ended a moment ago, or begins one.
func (p *replaying) join(rollout string, run replayer) (*background, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.last; b != nil {
		if b.rollout == rollout && b.idle.Stop() { // it has not fired
			b.idle.Reset(pollAgain)
			return b, nil
		}
		select {
		case <-b.ended:
		default:
			return nil, fault.New(fault.Unavailable, "the replay of rollout %s is under way", b.rollout)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &background{ended: make(chan struct{})}
	b.rollout = rollout
	b.idle = time.AfterFunc(pollAgain, func() { cancel(); p.forget(b) })
	p.last = b
	go func() {
		defer cancel()
		b.resp, b.err = run(ctx, &b.progress)
		close(b.ended)
	}()
	return b, nil
}

// forget drops a replay for which no request came.
func (p *replaying) forget(b *background) {
	<-b.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == b {
		p.last = nil
	}
}
