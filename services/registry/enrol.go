package registry

import (
	"context"
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/enrol"
)

// enrol admits a server that was invited. It is safe to run twice: the same key gets
// the same answer, and the guard of the server's key lets one key in only.
func (r *Registry) enrol(ctx context.Context, subject string, q *registryv1.EnrolRequest) (*registryv1.EnrolResponse, error) {
	from, err := topology.ParseServerSubject("enrol", subject)
	if err != nil {
		return nil, err
	}
	if q.ServerId != from.Server {
		return nil, fault.New(fault.Invalid, "server %q asked on the subject of %s", q.ServerId, from.Server)
	}
	if r.Signer == nil {
		return nil, fault.New(fault.Unavailable, "this registry has no signing keys, so it cannot enrol servers")
	}
	answer := &registryv1.EnrolResponse{TombstoneKey: r.Signer.TombstoneKey(), ImageKeys: r.ImageKeys}
	first := false
	err = r.write(ctx, func() ([]ledger.Draft, error) {
		s, _ := r.view.Server(from.Server)
		d := enrol.Decide(s, from.Cell, q, r.Now())
		if d.Refusal != nil {
			d.Refusal.Component = ledger.Registry
			return nil, fault.Refuse(fault.Denied, d.Refusal)
		}
		// Signed before anything is recorded: a key that cannot be signed must not use up the token.
		var err error
		if answer.UserJwt, err = r.Signer.Server(q.PublicKey, from.Server, from.Cell); err != nil {
			return nil, fmt.Errorf("sign the server's credentials: %w", err)
		}
		answer.Ownership = s.GetOwnership() // as it was recorded with the invitation
		if first = d.Fact != nil; !first {
			return nil, nil
		}
		f := r.noticed(ledger.Server, from.Server, d.Fact, ledger.CausedByRequest(r.NewID()))
		return []ledger.Draft{r.guarded(f)}, nil
	})
	if err != nil {
		r.Log.Warn().Err(err).Str(logs.Server, from.Server).Msg("enrolment refused")
		return nil, err
	}
	if first {
		r.Log.Info().Str(logs.Server, from.Server).Msg("server enrolled")
	}
	return answer, nil
}
