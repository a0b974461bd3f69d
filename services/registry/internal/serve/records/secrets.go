package records

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// SealSecrets seals values of metadata. It writes nothing, also not to the log.
func (r *Records) SealSecrets(
	_ context.Context, _ bus.Caller, q *registryv1.SealSecretsRequest,
) (*registryv1.SealSecretsResponse, error) {
	if r.Secrets == nil {
		return nil, fault.Refusef(fault.Unavailable, code.NoSecretKey, "this registry has no key of secrets")
	}
	if err := metadata.Check(q.GetValues()); err != nil {
		return nil, err
	}
	for name, value := range q.GetValues() {
		if metadata.IsNested(value) {
			return nil, request.Invalid(code.BadMetadata, "the secret %q must be text, not JSON", name)
		}
	}
	out := &registryv1.SealSecretsResponse{Sealed: map[string]string{}}
	for name, value := range q.GetValues() {
		out.Sealed[name] = r.Secrets.Seal(name, value)
	}
	return out, nil
}

// SealedWrong returns why an intent is refused whatever the fleet is: it sets a value that has the form of a sealed one
// and does not open.
func (r *Records) SealedWrong(i *intentv1.Intent) *apiv1.Refusal {
	why := cmp.Or(fault.RefusalOf(metadata.CheckSealed(r.Secrets, i.GetConfigure().GetSet())),
		r.ownWrong(i.GetInstall()))
	for _, step := range i.GetRollout().GetSteps() {
		why = cmp.Or(why, fault.RefusalOf(metadata.CheckSealed(r.Secrets, step.GetConfigure().GetSet())),
			r.ownWrong(step.GetInstall()))
	}
	for _, s := range i.GetRollout().GetThen() {
		why = cmp.Or(why, fault.RefusalOf(metadata.CheckSealed(r.Secrets, s.GetDefault().GetMetadata())))
	}
	return why
}

// ownWrong returns why the own values of an install are refused.
func (r *Records) ownWrong(q *intentv1.Install) (why *apiv1.Refusal) {
	for _, server := range slices.Sorted(maps.Keys(q.GetOwn())) {
		why = cmp.Or(why, fault.RefusalOf(metadata.CheckSealed(r.Secrets, q.GetOwn()[server].GetValues())))
	}
	return why
}
