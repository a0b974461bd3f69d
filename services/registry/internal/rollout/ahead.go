package rollout

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Brings returns the images that a target's server has to fetch, each once.
func Brings(t *rolloutv1.Target) (out []*imagev1.Ref) {
	known := map[string]bool{}
	for _, c := range t.GetChanges() {
		if c.To != nil && !instance.SameImage(c.From, c.To) && !known[c.To.Id] {
			known[c.To.Id] = true
			out = append(out, c.To)
		}
	}
	return out
}

// Unprimed reports whether a target could be asked to fetch ahead.
func Unprimed(t *rolloutv1.Target) bool {
	return t.State == pending && t.AheadAt == nil && len(Brings(t)) > 0
}

// Primed notes that the server of a target was asked to fetch one more image ahead.
func Primed(r *rolloutv1.Rollout, t *rolloutv1.Target, at time.Time) {
	if t.AheadAt == nil {
		t.AheadAt = timestamppb.New(at)
		r.Primed++
	}
	t.AheadLeft++
}

// NotPrimed notes that the server of a target could not be asked: it is not asked again.
func NotPrimed(r *rolloutv1.Rollout, t *rolloutv1.Target, at time.Time, why *apiv1.Refusal) {
	if t.AheadAt != nil {
		return
	}
	t.AheadAt, t.AheadReason = timestamppb.New(at), why
	r.Primed++
	r.NotFetchedAhead++
}

// AheadEnded notes that the server of a target fetched one image ahead, or did not for a reason.
func AheadEnded(r *rolloutv1.Rollout, t *rolloutv1.Target, why *apiv1.Refusal) {
	if t.AheadLeft == 0 {
		return
	}
	if t.AheadLeft--; why != nil {
		t.AheadReason = why
	}
	switch {
	case t.AheadLeft > 0:
	case t.AheadReason != nil:
		r.NotFetchedAhead++
	default:
		r.FetchedAhead++
	}
}
