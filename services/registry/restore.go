package registry

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/server"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

const (
	// maxAccepted is how many losses one request may accept.
	maxAccepted = 500
	// maxOffline is how many servers that are offline an answer lists.
	maxOffline = 1000
)

// getRestoreStatus lists the servers that are ahead of the ledger, and what else a restored backup may have lost.
func (r *Registry) getRestoreStatus(
	ctx context.Context, _ bus.Caller, q *registryv1.GetRestoreStatusRequest,
) (*registryv1.GetRestoreStatusResponse, error) {
	limit, err := pageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.GetRestoreStatusResponse{LedgerEnd: r.follower.Position()}
	err = r.look(ctx, func() error {
		meant, err := r.meant(q.On)
		if err != nil {
			return err
		}
		resp.Losses, resp.NextCursor = page(r.losses(meant, q.Page.GetCursor()), limit)
		if q.Page.GetCursor() == "" {
			resp.Unknown, _ = r.unknownServers()
			resp.Offline, resp.OfflineMore = r.offline(meant)
		}
		return nil
	})
	return answer(resp, err)
}

// meant returns a filter of the servers that a selector means; without one all are. It must run inside Read.
func (r *Registry) meant(on *intentv1.Selector) (func(*serverv1.Server) bool, error) {
	if on == nil || on.GetAll() {
		return func(*serverv1.Server) bool { return true }, nil
	}
	ids := map[string]bool{}
	for _, reference := range on.GetServers() {
		s, refusal := selector.Find(r.view, reference)
		if refusal != nil {
			return nil, notFound(refusal)
		}
		ids[s.Id] = true
	}
	if err := r.checkEnvironment(on.GetEnvironment()); err != nil {
		return nil, err
	}
	return func(s *serverv1.Server) bool {
		return (len(ids) == 0 || ids[s.Id]) && selector.Matches(s, on.GetEnvironment(), on.GetLabels())
	}, nil
}

// losses returns the servers that are ahead and come behind after, by id. It must run inside Read.
func (r *Registry) losses(meant func(*serverv1.Server) bool, after string) iter.Seq2[string, *registryv1.ServerLoss] {
	return func(yield func(string, *registryv1.ServerLoss) bool) {
		for id, s := range r.view.Servers(view.ServerFilter{Ahead: true}, after) {
			if meant(s) && !yield(id, server.Loss(s, r.view.InstancesOf(id))) {
				return
			}
		}
	}
}

// offline returns the servers that are offline, or were never heard, and how many more there are. It must run inside
// Read.
func (r *Registry) offline(meant func(*serverv1.Server) bool) (out []*serverv1.Server, more uint32) {
	for _, s := range r.view.Servers(view.ServerFilter{}, "") {
		switch {
		case !server.Managed(s) || s.Presence == serverv1.Presence_PRESENCE_ONLINE || !meant(s):
		case len(out) == maxOffline:
			more++
		default:
			out = append(out, proto.CloneOf(s))
		}
	}
	return out, more
}

// acceptRestore raises the epochs of servers that are ahead: of all that are named, or of none. It is a request and
// not an intent, because it changes nothing that is wanted: like the forgetting of a server it is a person's word about
// the record itself, which must be answered at once, and which must not wait in a stream that was restored too. It is
// safe to run twice: a loss that was accepted as it was seen is accepted.
func (r *Registry) acceptRestore(
	ctx context.Context, c bus.Caller, q *registryv1.AcceptRestoreRequest,
) (*registryv1.AcceptRestoreResponse, error) {
	if n := len(q.Losses); n == 0 || n > maxAccepted {
		return nil, invalid("BAD_PAGE", fmt.Sprintf("%d losses; want 1 to %d", n, maxAccepted))
	}
	resp := &registryv1.AcceptRestoreResponse{}
	accepted := map[string]*serverv1.DocumentPlace{}
	err := r.write(ctx, func() (drafts []ledger.Draft, err error) {
		for _, loss := range q.Losses {
			s, err := r.find(loss.ServerId)
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
			raised := &serverv1.EpochRaised{Epoch: server.NextEpoch(s), Place: s.Ahead.Place}
			drafts = append(drafts, r.guarded(r.asked(c, ledger.Server, s.Id, raised)))
		}
		return drafts, nil
	})
	if err != nil {
		return nil, err
	}
	r.follower.Read(func() {
		for _, loss := range q.Losses {
			if s, ok := r.view.Server(loss.ServerId); ok {
				resp.Servers = append(resp.Servers, proto.CloneOf(s))
				r.Log.Info().Str(logs.Server, s.Id).Str("name", s.Name).Str(logs.Actor, c.Actor).
					Uint64("epoch", s.Epoch).Msg("loss accepted")
			}
		}
	})
	return resp, nil
}

// acceptable refuses a loss that is not the one that was seen.
func acceptable(s *serverv1.Server, seen *serverv1.DocumentPlace) error {
	switch {
	case s.Ahead == nil:
		return fault.Refuse(fault.Conflict, &apiv1.Refusal{
			Code: "NOT_AHEAD", Try: "garrison restore status",
			Message: fmt.Sprintf("server %s (%s) is not ahead of the ledger; there is no loss to accept", s.Name, s.Id),
		})
	case !proto.Equal(s.Ahead.Place, seen):
		return fault.Refuse(fault.Conflict, &apiv1.Refusal{
			Code: "STALE_LOSS", Try: "garrison restore status, and accept again",
			Message: fmt.Sprintf("server %s (%s) is ahead by another document than was looked at", s.Name, s.Id),
		})
	}
	return nil
}
