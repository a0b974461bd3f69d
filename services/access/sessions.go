package access

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/access/internal/sessions"
	"github.com/garrison-fleet/garrison/services/access/internal/view"
)

// listSessions names servers with several open connections: the server's own that is not noticed to
// be broken yet, or a copy's.
func (a *Access) listSessions(
	_ context.Context, _ bus.Caller, q *accessv1.ListSessionsRequest,
) (*accessv1.ListSessionsResponse, error) {
	of := a.connections.ofServers(q.ServerId)
	ids := make([]string, 0, len(of))
	for id := range of {
		if id > q.GetPage().GetCursor() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	r := &accessv1.ListSessionsResponse{}
	if limit := view.LimitOf(q.Page); len(ids) > limit {
		ids, r.NextCursor = ids[:limit], ids[limit-1]
	}
	for _, id := range ids {
		r.Servers = append(r.Servers, of[id])
	}
	return r, nil
}

// ofServers returns the connections of one server, or of each server that has more than one.
func (c *connections) ofServers(only string) map[string]*accessv1.ServerSessions {
	var keys []string
	c.mu.Lock()
	book := c.books[topology.AccountNodes]
	if only == "" {
		keys = book.Several()
	}
	c.mu.Unlock()
	owners := map[string]string{}
	c.follower.Read(func() {
		if only != "" {
			keys = []string{c.view.KeyOfServer(only)}
		}
		for _, key := range keys {
			owners[key] = c.view.OwnerOf(topology.AccountNodes, key)
		}
	})
	out := map[string]*accessv1.ServerSessions{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, owner := range owners {
		if owner != "" {
			out[owner] = &accessv1.ServerSessions{ServerId: owner, Sessions: shown(book.Of(key)), Ended: c.ended[owner]}
		}
	}
	return out
}

func shown(all []sessions.Session) (out []*accessv1.Session) {
	for _, s := range all {
		out = append(out, &accessv1.Session{Address: s.Address, Since: timestamppb.New(s.Since), BusServer: s.Name})
	}
	return out
}
