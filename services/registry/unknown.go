package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/server"
)

const (
	// maxUnknown is how many senders that are not under management are remembered.
	maxUnknown = 1000
	// unknownKept is how long one of them is remembered after its last beat.
	unknownKept = 2 * time.Minute
)

// unknowns are the senders of beats that are not under management, by subject. They are in memory and not in the
// ledger: what nobody decided is no fact, and anybody with credentials that were not revoked can be one.
type unknowns struct {
	by   map[topology.ServerAddress]*registryv1.UnknownServer
	full time.Time // when one was last left out
}

// noteUnknown remembers a beat of a server that is not under management.
func (r *Registry) noteUnknown(from topology.ServerAddress, beat *reportv1.Beat, now time.Time) {
	r.unknownMu.Lock()
	defer r.unknownMu.Unlock()
	u := r.unknown.by[from]
	if u == nil {
		if len(r.unknown.by) >= maxUnknown {
			r.unknown.full = now
			return
		}
		if r.unknown.by == nil {
			r.unknown.by = map[topology.ServerAddress]*registryv1.UnknownServer{}
		}
		u = &registryv1.UnknownServer{ServerId: from.Server, Cell: from.Cell, Since: timestamppb.New(now)}
		r.unknown.by[from] = u
		r.Log.Warn().Str(logs.Server, from.Server).Str("cell", from.Cell).Str("host", server.SightingOf(beat).Hostname).
			Msg("beats of a server that is not under management")
	}
	u.HeardAt = timestamppb.New(now)
	u.Hostname, u.ExecutorVersion = server.SightingOf(beat).Hostname, server.Clip(beat.ExecutorVersion)
}

// forgetUnknown forgets who was not heard lately, or is under management by now.
func (r *Registry) forgetUnknown(now time.Time) {
	r.follower.Read(func() {
		r.unknownMu.Lock()
		defer r.unknownMu.Unlock()
		for from, u := range r.unknown.by {
			s, _ := r.view.Server(from.Server)
			if now.Sub(u.HeardAt.AsTime()) > unknownKept || server.Managed(s) && s.Cell == from.Cell {
				delete(r.unknown.by, from)
			}
		}
	})
}

// unknownServers returns who beats and is not under management, by id, and whether there are more. It must run inside
// Read.
func (r *Registry) unknownServers() (out []*registryv1.UnknownServer, more bool) {
	r.unknownMu.Lock()
	defer r.unknownMu.Unlock()
	for from, u := range r.unknown.by {
		s, _ := r.view.Server(from.Server)
		if server.Managed(s) && s.Cell == from.Cell {
			continue
		}
		row := proto.CloneOf(u)
		row.Name = s.GetName()
		row.Code, row.Reason = whyUnknown(s, from)
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b *registryv1.UnknownServer) int {
		return cmp.Or(cmp.Compare(a.ServerId, b.ServerId), cmp.Compare(a.Cell, b.Cell))
	})
	return out, r.Now().Sub(r.unknown.full) < unknownKept
}

// whyUnknown says why the beats of a server do not count; s is nil when the registry does not know it.
func whyUnknown(s *serverv1.Server, from topology.ServerAddress) (code, reason string) {
	switch {
	case s == nil:
		return "UNKNOWN_SERVER", "the registry has no such server: it was forgotten, or it enrolled after the backup " +
			"that was restored"
	case s.Cell != from.Cell:
		return "OTHER_CELL", fmt.Sprintf("the server belongs to cell %s", s.Cell)
	case s.Life == serverv1.Life_LIFE_DEAD:
		return "STILL_RUNS", "the server is dead, and its executor still runs"
	}
	return "NOT_ENROLLED", "the server is invited, and its enrolment is not in the ledger"
}

// listUnknownServers lists who beats and is not under management, as this replica heard it.
func (r *Registry) listUnknownServers(
	context.Context, bus.Caller, *registryv1.ListUnknownServersRequest,
) (*registryv1.ListUnknownServersResponse, error) {
	resp := &registryv1.ListUnknownServersResponse{}
	r.follower.Read(func() { resp.Servers, resp.More = r.unknownServers() })
	return resp, nil
}
