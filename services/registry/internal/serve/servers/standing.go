package servers

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/enrol"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// Quarantine shuts a server out until it is released. It is safe to run twice: a server that is
// quarantined keeps its first reason.
func (a *API) Quarantine(
	ctx context.Context, c bus.Caller, q *registryv1.QuarantineServerRequest,
) (*registryv1.QuarantineServerResponse, error) {
	s, err := a.stand(ctx, c, q.Server, q.Reason, func(s *serverv1.Server) (proto.Message, error) {
		switch {
		case !server.Managed(s):
			return nil, request.NotFound(selector.NotAlive(s))
		case s.Standing == serverv1.Standing_STANDING_REVOKED:
			return nil, fault.Refuse(fault.Conflict, enrol.ShutOut(s))
		case s.Standing == serverv1.Standing_STANDING_QUARANTINED:
			return nil, nil
		}
		return &serverv1.Quarantined{Reason: q.Reason}, nil
	})
	return request.Answer(&registryv1.QuarantineServerResponse{Server: s}, err)
}

// Release ends a server's quarantine. It is safe to run twice: a server that is not quarantined stays
// as it is.
func (a *API) Release(
	ctx context.Context, c bus.Caller, q *registryv1.ReleaseServerRequest,
) (*registryv1.ReleaseServerResponse, error) {
	s, err := a.stand(ctx, c, q.Server, q.Reason, func(s *serverv1.Server) (proto.Message, error) {
		switch {
		case !server.Managed(s):
			return nil, request.NotFound(selector.NotAlive(s))
		case s.Standing == serverv1.Standing_STANDING_REVOKED:
			return nil, fault.Refuse(fault.Conflict, enrol.ShutOut(s))
		case s.Standing != serverv1.Standing_STANDING_QUARANTINED:
			return nil, nil
		}
		return &serverv1.Released{Reason: q.Reason}, nil
	})
	return request.Answer(&registryv1.ReleaseServerResponse{Server: s}, err)
}

// Revoke makes the credentials of a server void, and a token that was made for it since. It is safe
// to run twice: a server without either stays as it is.
func (a *API) Revoke(
	ctx context.Context, c bus.Caller, q *registryv1.RevokeServerRequest,
) (*registryv1.RevokeServerResponse, error) {
	s, err := a.stand(ctx, c, q.Server, q.Reason, func(s *serverv1.Server) (proto.Message, error) {
		switch {
		case s.Life == serverv1.Life_LIFE_INVITED:
			return nil, fault.Refusef(fault.Conflict, code.NotAlive, "server %s (%s) has only an unused invitation",
				s.Name, s.Id).Try("garrison server forget " + s.Name)
		case s.Standing == serverv1.Standing_STANDING_REVOKED && !server.HasToken(s):
			return nil, nil
		}
		return &serverv1.Revoked{Reason: q.Reason}, nil
	})
	return request.Answer(&registryv1.RevokeServerResponse{Server: s}, err)
}

// stand records what a decision about a server's standing leads to, and returns the server after it.
func (a *API) stand(
	ctx context.Context, c bus.Caller, reference, reason string,
	decide func(*serverv1.Server) (proto.Message, error),
) (*serverv1.Server, error) {
	if !request.Printable(reason, request.MaxDescription) {
		return nil, request.Invalid(code.Invalid,
			"a reason must be printable and have %d bytes at most", request.MaxDescription)
	}
	var id string
	var body proto.Message
	err := a.records.Change(ctx, func() ([]ledger.Draft, error) {
		s, err := a.records.Find(reference)
		if err != nil {
			return nil, err
		}
		id = s.Id
		if body, err = decide(s); body == nil || err != nil {
			return nil, err
		}
		return []ledger.Draft{a.records.ByCaller(c, ledger.Server, s.Id, body)}, nil
	})
	if err != nil {
		return nil, err
	}
	if body != nil {
		a.log.Info().Str(logs.Server, id).Str(logs.Actor, c.Actor).Str(logs.Reason, reason).
			Str("change", string(body.ProtoReflect().Descriptor().Name())).Msg("server's standing changed")
	}
	return a.copy(ctx, id)
}
