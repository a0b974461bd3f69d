package registry

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// withdrawIntent records that an accepted intent is withdrawn. Everything else follows from that fact: the dispatcher
// cancels what is queued, and for each task that it cancelled the registry makes the instance wanted as before. Which
// changes had begun is thus decided where tasks are assigned, and by the order of the ledger. Asked again, it writes
// nothing.
func (r *Registry) withdrawIntent(
	ctx context.Context, c bus.Caller, q *registryv1.WithdrawIntentRequest,
) (*registryv1.WithdrawIntentResponse, error) {
	if err := ident.Check("intent id", q.IntentId); err != nil {
		return nil, err
	}
	if len(q.Reason) > maxReason || !utf8.ValidString(q.Reason) {
		return nil, invalid("BAD_REASON", fmt.Sprintf("a reason is text of at most %d bytes", maxReason))
	}
	var conflict error
	for range tries {
		d, err := r.pastDecision(ctx, q.IntentId)
		if fault.Is(err, fault.NotFound) {
			return nil, unknownIntent(q.IntentId)
		}
		if err != nil {
			return nil, err
		}
		if d.record.State == intentv1.State_STATE_WITHDRAWN {
			return &registryv1.WithdrawIntentResponse{Intent: d.record}, r.follower.Wait(ctx, d.sequence)
		}
		if refusal := withdrawable(d.record); refusal != nil {
			return nil, fault.Refuse(fault.Conflict, refusal)
		}
		f := r.asked(c, ledger.Intent, q.IntentId, &intentv1.Withdrawn{Reason: q.Reason})
		last, err := r.writer.Append(ctx, ledger.OnKey(f, d.sequence))
		if err == nil {
			return r.withdrawn(ctx, q.IntentId, last)
		}
		if !fault.Is(err, fault.Conflict) {
			return nil, err
		}
		conflict = err
	}
	return nil, conflict
}

func (r *Registry) withdrawn(ctx context.Context, id string, last uint64) (*registryv1.WithdrawIntentResponse, error) {
	if err := r.follower.Wait(ctx, last); err != nil {
		return nil, err
	}
	found, err := r.pastIntent(ctx, id)
	return &registryv1.WithdrawIntentResponse{Intent: found}, err
}

// withdrawable refuses an intent of which nothing can be taken back.
func withdrawable(r *intentv1.Record) *apiv1.Refusal {
	show := "garrison intent show " + r.Id
	switch {
	case r.State != intentv1.State_STATE_ACCEPTED:
		return &apiv1.Refusal{Code: "NOT_ACCEPTED", Message: "intent " + r.Id + " was refused and changes nothing", Try: show}
	case r.Intent.GetDryRun() || r.Changed == 0:
		return &apiv1.Refusal{Code: "NOT_ACCEPTED", Message: "intent " + r.Id + " changes nothing", Try: show}
	case r.Intent.GetDecommission() != nil:
		return &apiv1.Refusal{
			Code: "NOT_WITHDRAWABLE", Message: "intent " + r.Id + " ends a server, which began to end when it was accepted", Try: show,
		}
	}
	return nil
}

func unknownIntent(id string) error {
	return fault.Refuse(fault.NotFound, &apiv1.Refusal{
		Code: "UNKNOWN_INTENT", Message: fmt.Sprintf("intent %s is not decided, or was never published", id),
		Try: "garrison intent list",
	})
}

// isVerb returns a filter for intents with a verb; nil when none is named.
func isVerb(verb string) func(*intentv1.Intent) bool {
	if verb == "" {
		return nil
	}
	return func(i *intentv1.Intent) bool {
		ask := i.ProtoReflect().WhichOneof(i.ProtoReflect().Descriptor().Oneofs().ByName("ask"))
		return ask != nil && strings.EqualFold(string(ask.Name()), verb)
	}
}
