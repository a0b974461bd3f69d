package servers

import (
	"context"
	"iter"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/page"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/epoch"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/beats"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

const (
	// maxAccepted is how many losses one request may accept.
	maxAccepted = 500
	// maxOffline is how many offline servers an answer lists.
	maxOffline = 1000
)

// Restores answers requests about the loss of facts after the restore of a backup.
type Restores struct {
	records *records.Records
	unknown *beats.Unknown
	log     zerolog.Logger
}

// NewRestores returns what answers requests about servers that are ahead of a restored ledger.
func NewRestores(r *records.Records, unknown *beats.Unknown, log zerolog.Logger) *Restores {
	return &Restores{records: r, unknown: unknown, log: log}
}

// Status lists the servers that are ahead of the ledger, and what else a restored backup may have lost.
func (a *Restores) Status(
	ctx context.Context, _ bus.Caller, q *registryv1.GetRestoreStatusRequest,
) (*registryv1.GetRestoreStatusResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.GetRestoreStatusResponse{LedgerEnd: a.records.Follower.Position()}
	err = a.records.Decider.Query(ctx, func() error {
		matches, err := a.matcher(q.On)
		if err != nil {
			return err
		}
		part := page.Take(a.losses(matches, q.Page.GetCursor()), limit)
		resp.Losses, resp.NextCursor, resp.LeftOut = part.Rows, part.Next, part.LeftOut
		if q.Page.GetCursor() == "" {
			resp.Unknown, _ = a.unknown.Rows()
			resp.Offline, resp.OfflineMore = a.offline(matches)
		}
		return nil
	})
	return request.Answer(resp, err)
}

// matcher returns a filter for the servers that a selector matches; no selector matches all. It must
// run inside Read.
func (a *Restores) matcher(on *intentv1.Selector) (func(*serverv1.Server) bool, error) {
	if on == nil || on.GetAll() {
		return func(*serverv1.Server) bool { return true }, nil
	}
	ids := map[string]bool{}
	for _, reference := range on.GetServers() {
		s, refusal := selector.Find(a.records.View, reference)
		if refusal != nil {
			return nil, request.NotFound(refusal)
		}
		ids[s.Id] = true
	}
	if err := a.records.CheckEnvironment(on.GetEnvironment()); err != nil {
		return nil, err
	}
	return func(s *serverv1.Server) bool {
		return (len(ids) == 0 || ids[s.Id]) && selector.Matches(s, on.GetEnvironment(), on.GetLabels())
	}, nil
}

// losses returns the servers that are ahead and sort after an id, by id. It must run inside Read.
func (a *Restores) losses(
	matches func(*serverv1.Server) bool, after string,
) iter.Seq2[string, *registryv1.ServerLoss] {
	return func(yield func(string, *registryv1.ServerLoss) bool) {
		for id, s := range a.records.View.Servers(view.ServerFilter{Ahead: true}, after) {
			if matches(s) && !yield(id, epoch.Loss(s, a.records.View.InstancesOf(id))) {
				return
			}
		}
	}
}

// offline returns the servers that are offline or never sent a beat, and how many more there are. It
// must run inside Read.
func (a *Restores) offline(matches func(*serverv1.Server) bool) (out []*serverv1.Server, more uint32) {
	for _, s := range a.records.View.Servers(view.ServerFilter{}, "") {
		switch {
		case !server.Managed(s) || s.Presence == serverv1.Presence_PRESENCE_ONLINE || !matches(s):
		case len(out) == maxOffline:
			more++
		default:
			out = append(out, &serverv1.Server{
				Id: s.Id, Name: s.Name, Cell: s.Cell, Life: s.Life, Presence: s.Presence, Since: s.Since,
			})
		}
	}
	return out, more
}

// Accept raises the epochs of servers that are ahead: of all that are named, or of none. It is a
// request and not an intent, because it changes nothing that is wanted: like the forgetting of a
// server it is an operator's decision about the record itself, which needs an answer at once and must
// not wait in a stream that was restored too. It is safe to run twice: a loss that was accepted stays
// accepted.
func (a *Restores) Accept(
	ctx context.Context, c bus.Caller, q *registryv1.AcceptRestoreRequest,
) (*registryv1.AcceptRestoreResponse, error) {
	if n := len(q.Losses); n == 0 || n > maxAccepted {
		return nil, request.Invalid(code.Invalid, "%d losses; want 1 to %d", n, maxAccepted)
	}
	resp := &registryv1.AcceptRestoreResponse{}
	accepted := map[string]*serverv1.DocumentPlace{}
	err := a.records.Change(ctx, func() (drafts []ledger.Draft, err error) {
		for _, loss := range q.Losses {
			s, err := a.records.Find(loss.ServerId)
			if err != nil {
				return nil, err
			}
			if s.Ahead == nil && accepted[s.Id] != nil {
				continue // it was recorded, and the answer was lost
			}
			if err := acceptable(s, loss.Place); err != nil {
				return nil, err
			}
			accepted[s.Id] = s.Ahead.Place
			raised := &serverv1.EpochRaised{Epoch: epoch.Next(s), Place: s.Ahead.Place}
			drafts = append(drafts, a.records.ByCaller(c, ledger.Server, s.Id, raised))
		}
		return drafts, nil
	})
	if err != nil {
		return nil, err
	}
	a.records.Follower.Read(func() {
		for _, loss := range q.Losses {
			if s, ok := a.records.View.Server(loss.ServerId); ok {
				resp.Servers = append(resp.Servers, proto.CloneOf(s))
				a.log.Info().Str(logs.Server, s.Id).Str("name", s.Name).Str(logs.Actor, c.Actor).
					Uint64("epoch", s.Epoch).Msg("loss accepted")
			}
		}
	})
	return resp, nil
}

// acceptable refuses a loss that is not the one in the request.
func acceptable(s *serverv1.Server, seen *serverv1.DocumentPlace) error {
	switch {
	case s.Ahead == nil:
		return fault.Refusef(fault.Conflict, code.NotAhead,
			"server %s (%s) is not ahead of the ledger; there is no loss to accept", s.Name, s.Id).
			Try("garrison restore")
	case !proto.Equal(s.Ahead.Place, seen):
		return fault.Refusef(fault.Conflict, code.StaleLoss,
			"server %s (%s) is ahead by another document than the request names", s.Name, s.Id).
			Try("garrison restore, and accept again")
	}
	return nil
}
