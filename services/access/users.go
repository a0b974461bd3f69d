package access

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/trust"

	"github.com/garrison-fleet/garrison/services/access/internal/decision"
)

// confirmWithin is how long the answer to a revocation waits for the bus.
const confirmWithin = 4 * time.Second

// createUser signs before it records: what cannot be signed must not take the name.
func (a *Access) createUser(
	ctx context.Context, caller bus.Caller, q *accessv1.CreateUserRequest,
) (*accessv1.CreateUserResponse, error) {
	r := &accessv1.CreateUserResponse{}
	_, err := a.decide(ctx, caller, func() ([]ledger.Draft, error) {
		p, drafts, err := decision.Create(a.view,
			trust.Person{Name: q.Name, Role: decision.RoleOf(q.Role), PublicKey: q.PublicKey}, q.ValidFor, a.cfg.Now())
		if err == nil {
			r.Jwt, err = a.cfg.Issuer.Sign(p)
		}
		return drafts, err
	})
	if err != nil {
		return nil, err
	}
	r.User, err = a.user(ctx, q.Name)
	return r, err
}

func (a *Access) listUsers(
	_ context.Context, _ bus.Caller, q *accessv1.ListUsersRequest,
) (r *accessv1.ListUsersResponse, err error) {
	r = &accessv1.ListUsersResponse{}
	a.follower.Read(func() { r.Users, r.NextCursor, err = a.view.Users(q.Page, a.cfg.Now()) })
	return r, err
}

// revokeUser waits a moment until the bus refuses the user.
func (a *Access) revokeUser(
	ctx context.Context, caller bus.Caller, q *accessv1.RevokeUserRequest,
) (*accessv1.RevokeUserResponse, error) {
	a.revoking.Lock()
	sequence, err := a.decide(ctx, caller, func() ([]ledger.Draft, error) {
		return decision.Revoke(a.view, q, a.cfg.Now())
	})
	a.revoking.Unlock()
	if err != nil {
		return nil, err
	}
	if sequence == 0 { // revoked before
		a.follower.Read(func() { sequence = a.view.UserSequence(q.Name) })
	}
	u, err := a.user(ctx, q.Name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	return &accessv1.RevokeUserResponse{User: u, ShutOut: a.pusher.wait(ctx, sequence)}, nil
}

// renewSelf signs the caller's own key again. The name is that of the subject, which the bus has checked.
func (a *Access) renewSelf(
	ctx context.Context, caller bus.Caller, q *accessv1.RenewSelfRequest,
) (*accessv1.RenewSelfResponse, error) {
	r := &accessv1.RenewSelfResponse{}
	if a.cfg.CA != nil {
		ca, err := a.cfg.CA()
		if err != nil {
			return nil, fault.New(fault.Unavailable, "read the CA of the bus: %w", err)
		}
		r.BusCa = string(ca)
	}
	_, err := a.decide(ctx, caller, func() ([]ledger.Draft, error) {
		p, drafts, err := decision.Renew(a.view, caller.Actor, q.PublicKey, a.cfg.Now())
		if err != nil {
			return nil, err
		}
		if !p.Expires.IsZero() {
			r.ExpiresAt = timestamppb.New(p.Expires)
		}
		r.Jwt, err = a.cfg.Issuer.Sign(p)
		return drafts, err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// adopt records the users that were created without this service: the first operator, who could not
// ask it.
func (a *Access) adopt(ctx context.Context) error {
	people, err := a.cfg.Issuer.People()
	if err != nil {
		return err
	}
	for _, p := range people {
		for {
			_, err := a.decide(ctx, bus.Caller{}, func() ([]ledger.Draft, error) {
				return decision.Adopt(a.view, p, a.cfg.Now()), nil
			})
			if err == nil {
				break
			}
			a.cfg.Log.Warn().Err(err).Str(logs.Actor, p.Name).Msg("user not recorded; retrying")
			if !pause(ctx, pushEvery) {
				return nil
			}
		}
	}
	return nil
}

// user returns a user, or a refusal when it does not exist.
func (a *Access) user(ctx context.Context, name string) (u *userv1.User, err error) {
	err = a.decider.Query(ctx, func() (e error) { u, e = a.view.User(name, a.cfg.Now()); return e })
	return u, err
}

// decide takes a decision in the name of a caller and records it. When it returns without an error, the
// view holds the facts, or there were none to record; the sequence is 0 then.
func (a *Access) decide(ctx context.Context, caller bus.Caller, decision decide.Decision) (uint64, error) {
	origin := decide.By(caller)
	var recorded []ledger.Draft
	sequence, err := a.decider.Do(ctx, func() ([]ledger.Draft, error) {
		drafts, err := decision()
		for i, d := range drafts {
			drafts[i].Fact = a.decider.Fact(origin, d.Noun, d.Key, d.Body)
		}
		recorded = drafts
		return drafts, err
	})
	if err != nil {
		return 0, err
	}
	for _, d := range recorded {
		a.cfg.Log.Info().Str(logs.Subject, d.Subject()).Str(logs.Actor, d.Actor).Uint64(logs.Sequence, sequence).
			Msg("fact recorded")
	}
	return sequence, nil
}
