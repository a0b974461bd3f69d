package admission

import (
	"context"
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/enrol"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// InvitedAtOnce is how many servers one request invites: their facts are one step, and their tokens one answer.
const InvitedAtOnce = 200

// Invite creates a one-time token, for a new server or for one whose credentials are void. Only its hash is recorded,
// so the token cannot be shown again.
func (a *Desk) Invite(
	ctx context.Context, c bus.Caller, q *registryv1.InviteServerRequest,
) (*registryv1.InviteServerResponse, error) {
	invited, err := a.invitation(q)
	if err != nil {
		return nil, err
	}
	i := &invitations{Desk: a, caller: c, alone: true, ids: []string{q.ServerId}, asked: []*serverv1.Invited{invited}}
	if err := i.record(ctx); err != nil {
		return nil, err
	}
	one := i.out[0]
	a.log.Info().Str(logs.Server, one.ServerId).Str("name", invited.Name).Bool("again", one.Known).
		Str(logs.Actor, c.Actor).Msg("server invited")
	return &registryv1.InviteServerResponse{
		ServerId: one.ServerId, Token: one.Token, ExpiresAt: one.ExpiresAt, Again: one.Known,
	}, nil
}

// InviteMany invites servers, all or none. It is safe to run twice: a server that did not join yet gets another token,
// which makes the earlier one void, and one that joined is left as it is.
func (a *Desk) InviteMany(
	ctx context.Context, c bus.Caller, q *registryv1.InviteServersRequest,
) (*registryv1.InviteServersResponse, error) {
	i := &invitations{Desk: a, caller: c}
	if err := i.check(q); err != nil {
		return nil, err
	}
	if err := i.record(ctx); err != nil {
		return nil, err
	}
	a.log.Info().Int(logs.Count, len(i.out)).Str(logs.Actor, c.Actor).Msg("servers invited")
	return &registryv1.InviteServersResponse{Servers: i.out}, nil
}

// invitations is one request to invite servers.
type invitations struct {
	*Desk
	caller bus.Caller
	alone  bool     // the request is about one server, which must not be known, or have void credentials
	ids    []string // that were requested, or empty
	asked  []*serverv1.Invited

	out []*registryv1.InvitedServer
}

// record records the invitations.
func (m *invitations) record(ctx context.Context) error {
	if err := m.records.Change(ctx, m.decide); err != nil {
		return err
	}
	return m.withdrawTaken(ctx)
}

// check checks each server, and that no two of a request exclude each other.
func (m *invitations) check(q *registryv1.InviteServersRequest) error {
	if n := len(q.Servers); n < 1 || n > InvitedAtOnce {
		return request.Invalid(code.TooMany, "%d servers in one request; 1 to %d are possible", n, InvitedAtOnce)
	}
	seen := map[string]bool{}
	for _, one := range q.Servers {
		invited, err := m.invitation(one)
		if err != nil {
			return ofServer(one.GetName(), err)
		}
		for _, word := range []string{one.Name, one.ServerId} {
			if seen[strings.ToLower(word)] {
				return request.Invalid(code.Exists, "%.80q is in the request twice", word)
			}
			seen[strings.ToLower(word)] = word != ""
		}
		m.ids, m.asked = append(m.ids, one.ServerId), append(m.asked, invited)
	}
	return nil
}

// ofServer names the server that an error is about.
func ofServer(name string, err error) error {
	r := fault.RefusalOf(err)
	if r == nil {
		return fmt.Errorf("server %.80q: %w", name, err)
	}
	r.Message = fmt.Sprintf("server %.80q: %s", name, r.Message)
	return err
}

// decide drafts the facts of all servers. It must run inside Read.
func (m *invitations) decide() (drafts []ledger.Draft, err error) {
	m.out = nil
	for n, invited := range m.asked {
		var d *ledger.Draft
		s := m.known(invited.Name)
		switch {
		case s == nil:
			d, err = m.invite(m.ids[n], invited)
		case m.alone && (s.Life == serverv1.Life_LIFE_INVITED || !server.Void(s, m.records.Now())):
			err = nameInUse(s)
		case s.Standing == serverv1.Standing_STANDING_QUARANTINED:
			err = fault.Refuse(fault.Conflict, enrol.ShutOut(s))
		case s.Life == serverv1.Life_LIFE_INVITED || server.Void(s, m.records.Now()):
			d, err = m.again(s, invited)
		default:
			m.out = append(m.out, &registryv1.InvitedServer{Name: s.Name, ServerId: s.Id, Known: true})
		}
		if err != nil && !m.alone {
			err = ofServer(invited.Name, err)
		}
		if err != nil {
			return nil, err
		}
		if d != nil {
			drafts = append(drafts, *d)
		}
	}
	return drafts, nil
}

// nameInUse refuses an invitation under the name of a server.
func nameInUse(s *serverv1.Server) error {
	if s.Life == serverv1.Life_LIFE_INVITED {
		return request.AlreadyExists("invitation of server", s.Name,
			"garrison server forget "+s.Name+", which invalidates its token, and invite it again")
	}
	return request.AlreadyExists("server", s.Name, "garrison server show "+s.Name+
		"; to enroll its machine again, first: garrison server revoke "+s.Name)
}

// known returns the living server with a name, or nil.
func (m *invitations) known(name string) *serverv1.Server {
	for s := range m.records.View.ServersNamed(name) {
		if server.Living(s) {
			return s
		}
	}
	return nil
}

// invite drafts the invitation of a new server.
func (m *invitations) invite(id string, invited *serverv1.Invited) (*ledger.Draft, error) {
	if id == "" {
		id = m.records.NewID()
	}
	if err := m.unusedID(id); err != nil {
		return nil, err
	}
	if err := m.records.CheckEnvironment(invited.Environment); err != nil {
		return nil, err
	}
	token, guest, err := m.Token(id, invited.Cell, invited.ExpiresAt)
	if err != nil {
		return nil, err
	}
	invited.TokenSha256, invited.GuestKey = SumOf(token.Secret), guest
	m.out = append(m.out, &registryv1.InvitedServer{
		Name: invited.Name, ServerId: id, Token: token.String(), ExpiresAt: invited.ExpiresAt,
	})
	d := m.records.ByCaller(m.caller, ledger.Server, id, invited)
	return &d, nil
}

// again drafts another token for a server that is known.
func (m *invitations) again(s *serverv1.Server, invited *serverv1.Invited) (*ledger.Draft, error) {
	token, guest, err := m.Token(s.Id, s.Cell, invited.ExpiresAt)
	if err != nil {
		return nil, err
	}
	m.out = append(m.out, &registryv1.InvitedServer{
		Name: s.Name, ServerId: s.Id, Token: token.String(), ExpiresAt: invited.ExpiresAt, Known: true,
	})
	d := m.records.ByCaller(m.caller, ledger.Server, s.Id, &serverv1.Reinvited{
		TokenSha256: SumOf(token.Secret), ExpiresAt: invited.ExpiresAt, GuestKey: guest,
	})
	return &d, nil
}

// withdrawTaken withdraws the invitations whose names another registry gave away at the same moment: names are unique
// among servers that are not dead, and the view takes the first in the ledger.
func (m *invitations) withdrawTaken(ctx context.Context) error {
	var taken []*registryv1.InvitedServer
	m.records.Follower.Read(func() {
		for _, one := range m.out {
			if _, ok := m.records.View.Server(one.ServerId); !ok {
				taken = append(taken, one)
			}
		}
	})
	for _, one := range taken {
		f := m.records.Decider.Fact(decide.By(m.caller), ledger.Server, one.ServerId, &serverv1.Forgotten{})
		if _, err := m.records.Decider.Append(ctx, ledger.Free(f)); err != nil {
			return err
		}
	}
	if len(taken) > 0 {
		return request.AlreadyExists("server", taken[0].Name, "the same command again")
	}
	return nil
}
