package admission

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bounds"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/enrol"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// IdleASecond is how many requests to enrol of one sender may admit no server within a second, because they are
// repeated or refused. Beyond that its requests are dropped. One that admits a server is not counted: its token bounds
// those, and a rack of new machines behind one address joins at once.
const IdleASecond = 20

// Enrol admits a server that was invited, or that has a pooled token. It is safe to run twice: the same key gets the
// same answer, and the guard of the server's key admits one key only.
func (a *Desk) Enrol(
	ctx context.Context, subject string, q *registryv1.EnrolRequest,
) (*registryv1.EnrolResponse, error) {
	answer, admitted, err := a.enrolOnce(ctx, subject, q)
	if !admitted {
		a.Idle.Take(bus.SenderOf(ctx, subject))
	}
	return answer, err
}

// enrolOnce also reports whether a server was admitted that was not before.
func (a *Desk) enrolOnce(
	ctx context.Context, subject string, q *registryv1.EnrolRequest,
) (r *registryv1.EnrolResponse, admitted bool, err error) {
	from, err := topology.ParseEnrolSubject(subject)
	if err == nil {
		err = a.check(from, q.ServerId)
	}
	if err != nil {
		return nil, false, err
	}
	if err := bounds.Enrolment(q); err != nil {
		return nil, false, request.Invalid(code.Malformed, "%v", err)
	}
	if !ident.IsUUID(from.Server) {
		return a.pools.enrol(ctx, from, q)
	}
	return a.enrolInvited(ctx, from, q)
}

// enrolInvited admits the server whose own invitation has the token.
func (a *Desk) enrolInvited(
	ctx context.Context, from topology.ServerAddress, q *registryv1.EnrolRequest,
) (resp *registryv1.EnrolResponse, first bool, err error) {
	ca, err := a.busCA()
	if err != nil {
		return nil, false, err
	}
	resp = &registryv1.EnrolResponse{
		TombstoneKey: a.Signer.TombstoneKey(), ImageKeys: a.imageKeys, BusCa: string(ca),
	}
	err = a.records.Change(ctx, func() ([]ledger.Draft, error) {
		s, _ := a.records.View.Server(from.Server)
		d := enrol.Decide(s, from.Cell, q, a.records.Now())
		if other := a.records.View.ServerWithKey(q.PublicKey); d.Fact != nil && other != "" && other != from.Server {
			d.Refusal = enrol.OthersKey()
		}
		if d.Refusal != nil {
			d.Refusal.Component = ledger.Registry
			return nil, fault.Refuse(fault.Denied, d.Refusal)
		}
		expires := s.GetCredentialsExpireAt()
		if first = d.Fact != nil; first || expires == nil {
			expires = a.nextExpiry()
		}
		// Sign before anything is recorded: a key that cannot be signed must not use up the token.
		var err error
		if resp.UserJwt, err = a.Signer.Server(q.PublicKey, from.Server, from.Cell, expires.AsTime()); err != nil {
			return nil, fmt.Errorf("sign the server's credentials: %w", err)
		}
		resp.Ownership = s.GetOwnership() // as recorded with the invitation
		if !first {
			return nil, nil
		}
		d.Fact.ExpiresAt = expires
		f := a.records.Own(ledger.Server, from.Server, d.Fact, ledger.CausedByRequest(a.records.NewID()))
		return []ledger.Draft{a.records.Guard(f)}, nil
	})
	if err != nil {
		a.refusals.Warn(a.log, from.Server).Err(err).Str(logs.Server, from.Server).Msg("enrolment refused")
		return nil, false, err
	}
	if first {
		a.log.Info().Str(logs.Server, from.Server).Msg("server enrolled")
	}
	return resp, first, nil
}

// Renew signs the key of a server again. It is safe to run twice: a repeated request gets credentials
// that expire later, or, within renewEvery, as those that it has.
func (a *Desk) Renew(
	ctx context.Context, subject string, q *registryv1.RenewRequest,
) (*registryv1.RenewResponse, error) {
	from, err := topology.ParseRenewSubject(subject)
	if err == nil {
		err = a.check(from, q.ServerId)
	}
	if err != nil {
		return nil, err
	}
	ca, err := a.busCA()
	if err != nil {
		return nil, err
	}
	resp := &registryv1.RenewResponse{BusCa: string(ca)}
	err = a.records.Change(ctx, func() ([]ledger.Draft, error) {
		s, _ := a.records.View.Server(from.Server)
		if refusal := enrol.CheckRenewal(s, from.Cell, q.PublicKey); refusal != nil {
			refusal.Component = ledger.Registry
			return nil, fault.Refuse(fault.Denied, refusal)
		}
		expires := a.nextExpiry()
		recent := s.CredentialsExpireAt != nil &&
			expires.AsTime().Sub(s.CredentialsExpireAt.AsTime()) < min(renewEvery, a.lasting/4)
		if recent {
			expires = s.CredentialsExpireAt
		}
		var err error
		if resp.UserJwt, err = a.Signer.Server(q.PublicKey, s.Id, s.Cell, expires.AsTime()); err != nil {
			return nil, fmt.Errorf("sign the server's credentials: %w", err)
		}
		if recent {
			return nil, nil
		}
		f := a.records.Own(ledger.Server, s.Id,
			&serverv1.CredentialsRenewed{PublicKey: q.PublicKey, ExpiresAt: expires},
			ledger.CausedByRequest(a.records.NewID()))
		return []ledger.Draft{a.records.Guard(f)}, nil
	})
	if err != nil {
		a.refusals.Warn(a.log, from.Server).Err(err).Str(logs.Server, from.Server).Msg("renewal refused")
		return nil, err
	}
	return resp, nil
}

// requestsAMinute is how many enrolments and renewals one server may request; a signature costs more than a request.
const requestsAMinute = 20

// renewEvery bounds the facts that one server's renewals cause: a renewal so soon after another one
// extends nothing.
const renewEvery = time.Hour

// check refuses a request of one server on another's subject, one too many, and any without keys.
func (a *Desk) check(from topology.ServerAddress, server string) error {
	if server != from.Server {
		return fault.New(
			fault.Invalid, "the request of server %q came on the subject of %s", server, from.Server,
		)
	}
	if a.Signer == nil {
		return fault.New(fault.Unavailable, "this registry has no signing keys, so it cannot sign credentials")
	}
	if !ident.IsUUID(server) {
		return nil // enrol paces the holders of a pooled token
	}
	if _, ok := a.pace.Take(server); !ok {
		return fault.Refusef(fault.Unavailable, code.Busy, "server %s requests credentials too often", server).
			Try("again in a minute").From(ledger.Registry)
	}
	return nil
}

// nextExpiry returns until when credentials are valid that are signed now.
func (a *Desk) nextExpiry() *timestamppb.Timestamp {
	return timestamppb.New(a.records.Now().Add(a.lasting).UTC().Truncate(time.Second))
}

// grant is what a server gets that joined over a login that it shares with others.
type grant struct {
	server, cell, publicKey string
	ownership               serverv1.Ownership
	expires                 time.Time // of its credentials; zero means never
}

// grantOf returns what a recorded server gets.
func grantOf(s *serverv1.Server) *grant {
	g := &grant{server: s.Id, cell: s.Cell, publicKey: s.PublicKey, ownership: s.Ownership}
	if s.CredentialsExpireAt != nil {
		g.expires = s.CredentialsExpireAt.AsTime()
	}
	return g
}

// sealed signs the credentials of a server and seals them to a key of its own, so that no other holder of
// its login can read them.
func (a *Desk) sealed(g *grant, to string) (sealed []byte, by string, err error) {
	ca, err := a.busCA()
	if err != nil {
		return nil, "", err
	}
	resp := &registryv1.EnrolResponse{
		ServerId: g.server, Cell: g.cell, Ownership: g.ownership, TombstoneKey: a.Signer.TombstoneKey(),
		ImageKeys: a.imageKeys, BusCa: string(ca),
	}
	if resp.UserJwt, err = a.Signer.Server(g.publicKey, g.server, g.cell, g.expires); err != nil {
		return nil, "", err
	}
	data, err := proto.Marshal(resp)
	if err != nil {
		return nil, "", err
	}
	return trust.SealTo(to, data)
}
