package beats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/enrol"
	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

const (
	// maxUnknown is how many unknown senders are remembered.
	maxUnknown = 1000
	// UnknownKept is how long one of them is remembered after its last beat, and unknownBeats for how many beats at
	// least.
	UnknownKept, unknownBeats = 20 * time.Second, 4
)

// Unknown are the senders of beats that are not under management, or shut out. They are in memory and not
// in the ledger, because nothing was decided about them, and anyone whose credentials were not
// revoked can be one.
type Unknown struct {
	records *records.Records
	log     zerolog.Logger

	mu   sync.Mutex
	by   map[topology.ServerAddress]*registryv1.UnknownServer
	full time.Time // when one was last left out
}

// NewUnknown returns an empty list of servers that are not under management.
func NewUnknown(r *records.Records, log zerolog.Logger) *Unknown {
	return &Unknown{records: r, log: log}
}

// add remembers a beat of a server that is not under management, and returns since when it beats.
func (u *Unknown) add(from topology.ServerAddress, beat *reportv1.Beat, now time.Time) (since time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	host := presence.SightingOf(beat).Hostname
	row := u.by[from]
	if row == nil {
		if len(u.by) >= maxUnknown {
			u.full = now
			return now
		}
		if u.by == nil {
			u.by = map[topology.ServerAddress]*registryv1.UnknownServer{}
		}
		row = &registryv1.UnknownServer{ServerId: from.Server, Cell: from.Cell, Since: timestamppb.New(now)}
		u.by[from] = row
		u.log.Warn().Str(logs.Server, from.Server).Str("cell", from.Cell).Str("host", host).
			Msg("beats of a server that is not under management")
	}
	row.HeardAt = timestamppb.New(now)
	row.Hostname, row.ExecutorVersion = host, beat.ExecutorVersion
	return row.Since.AsTime()
}

// prune drops the senders that fell silent, although they would beat at an interval, or are under management by now.
func (u *Unknown) prune(now time.Time, interval time.Duration) {
	kept := max(UnknownKept, unknownBeats*interval)
	u.records.Follower.Read(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		for from, row := range u.by {
			if now.Sub(row.HeardAt.AsTime()) > kept || u.managed(from) {
				delete(u.by, from)
			}
		}
	})
}

func (u *Unknown) managed(from topology.ServerAddress) bool {
	s, _ := u.records.View.Server(from.Server)
	return server.Believed(s) && s.Cell == from.Cell
}

// Rows returns the unknown senders, by id, and whether more were left out. It must run inside Read.
func (u *Unknown) Rows() (out []*registryv1.UnknownServer, more bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for from, known := range u.by {
		if u.managed(from) {
			continue
		}
		s, _ := u.records.View.Server(from.Server)
		row := proto.CloneOf(known)
		row.Name = s.GetName()
		row.Code, row.Reason = whyUnknown(s, from)
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b *registryv1.UnknownServer) int {
		return cmp.Or(cmp.Compare(a.ServerId, b.ServerId), cmp.Compare(a.Cell, b.Cell))
	})
	return out, u.records.Now().Sub(u.full) < UnknownKept
}

// whyUnknown returns why the beats of a server do not count; s is nil when the view has no such server.
func whyUnknown(s *serverv1.Server, from topology.ServerAddress) (why, reason string) {
	switch {
	case s == nil:
		return code.UnknownServer,
			"the registry has no such server: it was forgotten, or it enrolled after the backup that was restored"
	case s.Cell != from.Cell:
		return code.OtherCell, fmt.Sprintf("the server belongs to cell %s", s.Cell)
	case server.Managed(s) && server.ShutOut(s):
		refusal := enrol.ShutOut(s)
		return refusal.Code, refusal.Message
	case s.Life == serverv1.Life_LIFE_DEAD:
		return code.StillRuns, "the server is dead, and its executor still runs"
	}
	return code.NotEnrolled, "the server is invited, and its enrolment is not in the ledger"
}

// List lists the unknown senders from which this replica received beats.
func (u *Unknown) List(
	context.Context, bus.Caller, *registryv1.ListUnknownServersRequest,
) (*registryv1.ListUnknownServersResponse, error) {
	resp := &registryv1.ListUnknownServersResponse{}
	u.records.Follower.Read(func() { resp.Servers, resp.More = u.Rows() })
	return resp, nil
}

// refusal returns why the beats and reports of a sender do not count; nil when they do.
func (u *Unknown) refusal(from topology.ServerAddress) (r *apiv1.Refusal) {
	u.records.Follower.Read(func() {
		if !u.managed(from) {
			s, _ := u.records.View.Server(from.Server)
			r = &apiv1.Refusal{}
			r.Code, r.Message = whyUnknown(s, from)
		}
	})
	return r
}
