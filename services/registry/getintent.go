package registry

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// longestWait is how long GetIntent waits for a decision at most.
const longestWait = 30 * time.Second

func (r *Registry) getIntent(ctx context.Context, _ bus.Caller, q *registryv1.GetIntentRequest) (*registryv1.GetIntentResponse, error) {
	if err := ident.Check("intent id", q.IntentId); err != nil {
		return nil, err
	}
	wait := q.GetWait().AsDuration()
	if wait < 0 || wait > longestWait {
		return nil, invalid("BAD_WAIT", fmt.Sprintf("a wait of %v; want 0 to %v", wait, longestWait))
	}
	until, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for looked := false; ; looked = true {
		changed := r.follower.Changed() // taken before the look, so that no change is missed
		if found := r.recentIntent(q.IntentId); found != nil {
			return &registryv1.GetIntentResponse{Intent: found}, nil
		}
		if !looked { // an old one is only in the ledger; asked once, since a new one comes through the view
			found, err := r.pastIntent(ctx, q.IntentId)
			if err == nil {
				return &registryv1.GetIntentResponse{Intent: found}, nil
			}
			if !fault.Is(err, fault.NotFound) {
				return nil, err
			}
		}
		select {
		case <-changed:
		case <-until.Done():
			return nil, unknownIntent(q.IntentId)
		}
	}
}

func (r *Registry) recentIntent(id string) *intentv1.Record {
	var out *intentv1.Record
	r.follower.Read(func() {
		if found, ok := r.view.Intent(id); ok {
			out = proto.CloneOf(found)
		}
	})
	return out
}

// pastIntent reads what became of an intent from the ledger itself. An error is NotFound when it is not there.
func (r *Registry) pastIntent(ctx context.Context, id string) (*intentv1.Record, error) {
	found, err := r.pastDecision(ctx, id)
	if err != nil {
		return nil, err
	}
	// Whoever hears of it may look at once at what it changed.
	return found.record, r.follower.Wait(ctx, found.sequence)
}

// decision is what the ledger says of an intent.
type decision struct {
	record   *intentv1.Record
	sequence uint64 // of the last fact about it
}

func (r *Registry) pastDecision(ctx context.Context, id string) (decision, error) {
	for _, body := range []proto.Message{&intentv1.Accepted{}, &intentv1.Refused{}} {
		f, err := r.lastFact(ctx, id, body)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return decision{}, err
		}
		d := decision{view.Record(f), f.Sequence}
		switch f, err = r.lastFact(ctx, id, &intentv1.Withdrawn{}); {
		case err == nil && view.Withdraw(d.record, f):
			d.sequence = f.Sequence
		case err != nil && !fault.Is(err, fault.NotFound):
			return decision{}, err
		}
		return d, nil
	}
	return decision{}, fault.New(fault.NotFound, "intent %s is not in the ledger", id)
}

// lastFact reads the last fact of one kind about an intent.
func (r *Registry) lastFact(ctx context.Context, id string, body proto.Message) (ledger.Fact, error) {
	subject := ledger.Fact{Noun: ledger.Intent, Key: id, Body: body}.Subject()
	m, err := r.Conn.DirectGet(ctx, topology.Ledger, subject)
	if err != nil {
		return ledger.Fact{}, err
	}
	f, err := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence)
	if err != nil {
		return f, fault.New(fault.Internal, "read intent %s: %w", id, err)
	}
	return f, nil
}
