// Package servers answers requests about servers: changes, standing, replacement, clean-up, ends, restores.
package servers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/shallow"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/window"
	"github.com/garrison-fleet/garrison/services/registry/internal/leak"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/admission"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/beats"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// API answers requests about servers.
type API struct {
	records   *records.Records
	duties    *Duties
	presence  *beats.Watch
	admission *admission.Desk
	log       zerolog.Logger

	Refused func() []string // the ids of the servers on which a default was refused or is held, sorted
}

// NewAPI returns what answers requests about servers.
func NewAPI(
	r *records.Records, d *Duties, p *beats.Watch, a *admission.Desk, log zerolog.Logger,
) *API {
	return &API{records: r, duties: d, presence: p, admission: a, log: log}
}

// List returns servers, a page at a time.
func (a *API) List(
	ctx context.Context, _ bus.Caller, q *registryv1.ListServersRequest,
) (*registryv1.ListServersResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	after, err := page.After(q)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListServersResponse{}
	err = a.records.Decider.Query(ctx, func() error {
		filter, err := a.filter(q)
		if err != nil {
			return err
		}
		part := page.Take(page.Map(a.records.View.Servers(filter, after), a.row), limit)
		resp.Servers, resp.NextCursor, resp.LeftOut = part.Rows, page.Cursor(q, part.Next), part.LeftOut
		resp.PresenceHeld = a.presence.Held()
		return nil
	})
	return request.Answer(resp, err)
}

// Count counts servers.
func (a *API) Count(
	ctx context.Context, _ bus.Caller, q *registryv1.CountServersRequest,
) (*registryv1.CountServersResponse, error) {
	by, top, err := request.CountBy(q.By, q.Top, q.Filter.GetPage(), false)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.CountServersResponse{}
	err = a.records.Decider.Query(ctx, func() error {
		filter, err := a.filter(cmp.Or(q.Filter, &registryv1.ListServersRequest{}))
		if err == nil {
			if slices.Contains(by, "presence") {
				filter.Late = a.presence.Late()
			}
			resp.Counts = a.records.View.CountServers(filter, by, top)
		}
		return err
	})
	return request.Answer(resp, err)
}

// filter checks that the records that a request names exist. It must run inside Read.
func (a *API) filter(q *registryv1.ListServersRequest) (view.ServerFilter, error) {
	filter := view.ServerFilter{
		Environment: q.Environment, Labels: q.Labels, Life: q.Life, Presence: recordedPresence(q.Presence),
		Standing: q.Standing, Condition: q.Condition, Trouble: q.Trouble, Leaked: q.Leaked,
		Found: q.Found, Token: q.Token,
	}
	if q.WaitsForDefault {
		filter.Life, filter.Among = cmp.Or(q.Life, serverv1.Life_LIFE_ALIVE), a.Refused()
	}
	if recordedPresence(q.Presence) == serverv1.Presence_PRESENCE_ONLINE {
		filter.Shown = func(s *serverv1.Server) bool { return a.isShown(s, q.Presence) }
	}
	if q.Trouble == code.ExpiredToken { // it follows from the time, so no index has it
		now := a.records.Now()
		filter.Trouble, filter.Life = "", serverv1.Life_LIFE_INVITED
		filter.Shown = func(s *serverv1.Server) bool { return server.InvitationExpired(s, now) }
	}
	if q.Trouble == code.NoImageKeys { // it follows from the registry's keys too
		filter.Trouble, filter.Unsigned = "", true
		if !a.records.Signed {
			filter.Among = []string{}
		}
	}
	var err error
	if filter.Unconfirmed, err = a.presence.Confirmations.Unconfirmed(q.UnconfirmedFor); err != nil {
		return filter, err
	}
	var refusal *apiv1.Refusal
	if filter.On, refusal = selector.NewQuery(a.records.View, q.On); refusal != nil {
		return filter, request.NotFound(refusal)
	}
	if q.Environment == environment.None {
		return filter, nil
	}
	return filter, a.records.CheckEnvironment(q.Environment)
}

// recordedPresence returns the recorded presence of the servers that are shown with a presence.
func recordedPresence(shown serverv1.Presence) serverv1.Presence {
	if shown == serverv1.Presence_PRESENCE_LATE {
		return serverv1.Presence_PRESENCE_ONLINE
	}
	return shown
}

// isShown reports whether a server that is recorded as online is shown with a presence.
func (a *API) isShown(s *serverv1.Server, want serverv1.Presence) bool {
	have, _ := a.presence.PresenceOf(s)
	return have == want
}

// row returns a copy of a server with its duties and its presence as it is shown.
func (a *API) row(_ string, s *serverv1.Server) *serverv1.Server {
	row := shallow.Copy(s)
	row.Duties = a.duties.Left(s)
	a.presence.Show(row)
	row.InventoryConfirmedAt = a.presence.Confirmations.At(s.Id)
	return row
}

// Get returns a server, with what is closed to it.
func (a *API) Get(
	ctx context.Context, _ bus.Caller, q *registryv1.GetServerRequest,
) (*registryv1.GetServerResponse, error) {
	resp := &registryv1.GetServerResponse{}
	err := a.records.Decider.Query(ctx, func() error {
		s, err := a.records.Find(q.Server)
		if err == nil {
			resp.Server, resp.Closed = a.row(s.Id, s), a.closed(s)
		}
		return err
	})
	return request.Answer(resp, err)
}

// closed returns why no change of an agent may begin on a server now; nil when one may. It must run inside Read.
func (a *API) closed(s *serverv1.Server) *registryv1.Closed {
	e, ok := a.records.View.Environment(s.Environment)
	if !ok {
		return nil
	}
	state := window.At(e, a.records.Now())
	if state.Open {
		return nil
	}
	out := &registryv1.Closed{Environment: e.Name, Reason: state.Why}
	if !state.Until.IsZero() {
		out.OpensAt = timestamppb.New(state.Until)
	}
	return out
}

// copy returns a copy of the server that a reference stands for.
func (a *API) copy(ctx context.Context, reference string) (out *serverv1.Server, err error) {
	err = a.records.Decider.Query(ctx, func() error {
		s, err := a.records.Find(reference)
		if err == nil {
			out = a.row(s.Id, s)
		}
		return err
	})
	return out, err
}

// Change replaces name, labels and environment. It is safe to run twice: a server that is as requested
// already writes nothing.
func (a *API) Change(
	ctx context.Context, c bus.Caller, q *registryv1.ChangeServerRequest,
) (*registryv1.ChangeServerResponse, error) {
	if err := request.CheckNewLabels(q.SetLabels); err != nil {
		return nil, err
	}
	if q.Name != nil {
		if err := admission.CheckServerName(*q.Name); err != nil {
			return nil, err
		}
	}
	var id string
	err := a.records.Change(ctx, func() ([]ledger.Draft, error) {
		s, err := a.records.Find(q.Server)
		if err != nil {
			return nil, err
		}
		id = s.Id
		next, err := a.changed(s, q)
		if err != nil || next.Name == "" && maps.Equal(next.Labels, server.OwnLabels(s)) &&
			next.Environment == s.Environment && request.SameOwners(next.Owners, s.Owners) {
			return nil, err
		}
		return []ledger.Draft{a.records.ByCaller(c, ledger.Server, s.Id, next)}, nil
	})
	if err != nil {
		return nil, err
	}
	s, err := a.copy(ctx, id)
	if err == nil && q.Name != nil && s.Name != *q.Name { // another registry admitted the name at the same moment
		return nil, request.NameTaken(a.holder(*q.Name, id))
	}
	return request.Answer(&registryv1.ChangeServerResponse{Server: s}, err)
}

// holder returns the name of the server that has a name which a server was not given.
func (a *API) holder(name, id string) (holder string) {
	a.records.Follower.Read(func() { holder = a.records.View.NameHolder(name, id) })
	return cmp.Or(holder, name)
}

// changed returns the name, labels and environment that a request leads to; the name is empty when it stays. It must
// run inside Read.
func (a *API) changed(s *serverv1.Server, q *registryv1.ChangeServerRequest) (*serverv1.Changed, error) {
	if !server.Living(s) {
		return nil, request.NotFound(selector.NotAlive(s))
	}
	next := &serverv1.Changed{
		Labels: maps.Clone(server.OwnLabels(s)), Environment: s.Environment,
		Owners: request.WithOwner(s.Owners, q.Owner),
	}
	if err := request.CheckOwners(next.Owners); err != nil {
		return nil, err
	}
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	for _, k := range q.UnsetLabels {
		if l := s.RuleLabels[k]; l != nil {
			return nil, fault.Refusef(fault.Conflict, code.LabelByRule, "server %s has the label %s by the rule %s",
				s.Name, k, l.GetRule()).
				Try("garrison server set " + s.Name + " " + k + "=VALUE")
		}
		delete(next.Labels, k)
	}
	maps.Copy(next.Labels, q.SetLabels)
	if err := request.CheckLabels(next.Labels); err != nil {
		return nil, err
	}
	if q.Name != nil && *q.Name != s.Name {
		next.Name = *q.Name
		if holder := a.records.View.NameHolder(next.Name, s.Id); holder != "" {
			return nil, request.NameTaken(holder)
		}
	}
	if q.Environment == nil {
		return next, nil
	}
	next.Environment = *q.Environment
	return next, a.records.CheckEnvironment(next.Environment)
}

// Forget removes a dead server, or an unused invitation, from every view. A leaked server is
// forgotten only on a request that accepts the leak.
func (a *API) Forget(
	ctx context.Context, c bus.Caller, q *registryv1.ForgetServerRequest,
) (*registryv1.ForgetServerResponse, error) {
	resp := &registryv1.ForgetServerResponse{}
	var at topology.ServerAddress
	err := a.records.Change(ctx, func() ([]ledger.Draft, error) {
		s, err := a.records.Find(q.Server)
		if resp.ServerId != "" && fault.Is(err, fault.NotFound) {
			return nil, nil // another replica recorded it
		}
		if err != nil {
			return nil, err
		}
		if server.Managed(s) {
			return nil, fault.Refusef(fault.Conflict, code.NotDead, "server %s (%s) is under management", s.Name, s.Id).
				Try("garrison server decommission " + s.Id)
		}
		leaks := leak.Leaks(s)
		if len(leaks) > 0 && !q.Leak {
			return nil, leaked(s, leaks)
		}
		resp.ServerId, resp.Leaks, at = s.Id, leaks, topology.ServerAddress{Cell: s.Cell, Server: s.Id}
		return []ledger.Draft{a.records.ByCaller(c, ledger.Server, s.Id, &serverv1.Forgotten{})}, nil
	})
	if err == nil {
		a.presence.Answers.Removed(at)
	}
	return request.Answer(resp, err)
}

// leaked refuses to forget a server on whose machine something of Garrison may still be.
func leaked(s *serverv1.Server, leaks []*serverv1.Duty) error {
	var why []string
	for _, l := range leaks {
		if l.Kind == serverv1.DutyKind_DUTY_KIND_RECEIPT {
			why = append(why, "its executor never reported that it removes itself")
		} else {
			why = append(why, l.Reason)
		}
	}
	return fault.Refusef(fault.Conflict, code.Leaked,
		"something of Garrison may still be on the machine of server %s (%s): %s",
		s.Name, s.Id, strings.Join(why, "; ")).
		Try(fmt.Sprintf("garrison server clean %s --ssh USER@HOST; when the machine is gone: garrison server forget "+
			"%[1]s --leak", s.Name))
}
