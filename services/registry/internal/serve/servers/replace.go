package servers

import (
	"cmp"
	"context"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/trust"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/admission"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// Replace makes the credentials of a server void and, in the same step, a token for the machine that takes its place.
// A repeated request makes another token and voids the one before.
func (a *API) Replace(
	ctx context.Context, c bus.Caller, q *registryv1.ReplaceServerRequest,
) (*registryv1.ReplaceServerResponse, error) {
	if a.admission.Signer == nil {
		return nil, fault.New(fault.Unavailable, "this registry has no signing keys, so it cannot invite servers")
	}
	if !request.Printable(q.Reason, request.MaxDescription) {
		return nil, request.Invalid(code.Invalid,
			"a reason must be printable and have %d bytes at most", request.MaxDescription)
	}
	expires, err := a.admission.TokenExpiry(q.ValidFor)
	if err != nil {
		return nil, err
	}
	var token trust.Token
	err = a.records.Change(ctx, func() ([]ledger.Draft, error) {
		s, err := a.records.Find(q.Server)
		if err == nil {
			err = a.checkReplaceable(s, q.Force)
		}
		if err != nil {
			return nil, err
		}
		made, guest, err := a.admission.Token(s.Id, s.Cell, expires)
		if err != nil {
			return nil, err
		}
		token = made
		drafts := []ledger.Draft{a.records.ByCaller(c, ledger.Server, s.Id,
			&serverv1.Revoked{Reason: cmp.Or(q.Reason, "its machine is replaced")})}
		again := a.records.ByCaller(c, ledger.Server, s.Id, &serverv1.Reinvited{
			TokenSha256: admission.SumOf(token.Secret), ExpiresAt: expires, GuestKey: guest,
		})
		return append(drafts, ledger.Free(again.Fact)), nil // the guard of the first is about both
	})
	if err != nil {
		return nil, err
	}
	a.log.Info().Str(logs.Server, token.ServerID).Str(logs.Actor, c.Actor).Str(logs.Reason, q.Reason).
		Msg("server's machine is replaced")
	s, err := a.copy(ctx, token.ServerID)
	return request.Answer(&registryv1.ReplaceServerResponse{Server: s, Token: token.String(), ExpiresAt: expires}, err)
}

// checkReplaceable refuses to replace the machine of a server that is not under management, or that still beats. It
// must run inside Read.
func (a *API) checkReplaceable(s *serverv1.Server, force bool) error {
	switch {
	case s.Life == serverv1.Life_LIFE_INVITED:
		return fault.Refusef(fault.Conflict, code.NotAlive, "server %s (%s) has only an unused invitation",
			s.Name, s.Id).Try("garrison server forget " + s.Name + ", then garrison server enroll " + s.Name)
	case !server.Managed(s):
		return request.NotFound(selector.NotAlive(s))
	case !force && s.Presence == serverv1.Presence_PRESENCE_ONLINE && server.Believed(s):
		return fault.Refusef(fault.Conflict, code.ServerOnline, "server %s (%s) is online: a replacement shuts it out",
			s.Name, s.Id).Try("garrison server enroll " + s.Name + " --replace --force")
	}
	return nil
}
