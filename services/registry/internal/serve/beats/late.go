package beats

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
)

// holdBack counts the servers that miss a beat, and begins or ends the hold.
func (p *Watch) holdBack() {
	silent, online := 0, 0
	var late []string
	p.inParts(func(servers iter.Seq[*serverv1.Server], now time.Time, _ uint64) {
		for s := range servers {
			if s.Presence != serverv1.Presence_PRESENCE_ONLINE {
				continue
			}
			since := p.lateSince(s, now)
			if !since.IsZero() {
				late = append(late, s.Id)
			}
			if !server.Believed(s) {
				continue
			}
			if online++; presence.Silent(since, now, p.Interval) {
				silent++
			}
		}
	})
	slices.Sort(late)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = late
	before, now := p.hold, p.records.Now()
	p.hold = before.Next(silent, online, now, p.Interval)
	switch was, is := before.Holds(now), p.hold.Holds(now); {
	case is && before.Since.IsZero():
		p.log.Warn().Int("silent", silent).Int("online", online).Time("until", p.hold.Until).
			Str(logs.Reason, heldText(p.hold)).Msg("presence is held")
	case !is && (was || !before.Since.IsZero() && p.hold.Since.IsZero()):
		p.log.Info().Int("silent", silent).Int("online", online).Msg("presence is no longer held")
	}
}

// heldText says why no server is called offline.
func heldText(h presence.Hold) string {
	return fmt.Sprintf("the registry hears no beats from %d %% of the servers (%d of %d): presence is held",
		100*h.Silent/max(h.Of, 1), h.Silent, h.Of)
}

// lateSince returns since when an online server misses a beat; zero while it does not. It must run with mu held.
func (p *Watch) lateSince(s *serverv1.Server, now time.Time) time.Time {
	if p.listening.IsZero() {
		return time.Time{} // no beat is received yet
	}
	return presence.LateSince(s, p.last[s.Id], p.hearing.Began(), now, p.Interval, p.spacing)
}

// PresenceOf returns the presence that is shown of a server, and since when it is late. It must run inside Read.
func (p *Watch) PresenceOf(s *serverv1.Server) (serverv1.Presence, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := p.lateSince(s, p.records.Now()); !since.IsZero() {
		return serverv1.Presence_PRESENCE_LATE, since
	}
	return s.GetPresence(), time.Time{}
}

// Late returns the ids of the servers that were late at the last sweep and are still, sorted: one that missed a beat
// since then is not among them yet. It must run inside Read.
func (p *Watch) Late() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.records.Now()
	for _, id := range p.late {
		if s, ok := p.records.View.Server(id); ok && !p.lateSince(s, now).IsZero() {
			out = append(out, id)
		}
	}
	return out
}

// Last returns the last beat of a server that this process received; the zero value when it received none.
func (p *Watch) Last(id string) presence.Beat {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[id]
}

// ClockOf returns what the last beats of a server show of its clock; nothing of one that is not online.
func (p *Watch) ClockOf(s *serverv1.Server) presence.Clock {
	if s.GetPresence() != serverv1.Presence_PRESENCE_ONLINE {
		return presence.Clock{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[s.Id].Clock
}

// Show puts the presence and the clock of a copy of a server's record as they are shown.
func (p *Watch) Show(row *serverv1.Server) {
	if ahead := p.ClockOf(row).Ahead(); ahead != 0 {
		row.ClockAhead = durationpb.New(ahead)
	}
	presence, since := p.PresenceOf(row)
	if presence != serverv1.Presence_PRESENCE_LATE {
		return
	}
	row.Presence, row.Since, row.Reason = presence, timestamppb.New(since), "a beat is missing"
	if p.Last(row.Id).Gone.Equal(since) {
		row.Reason = "it has no connection to the bus"
	}
	if held := p.Held(); held != nil {
		row.Reason += fmt.Sprintf("; presence is held: %d of %d servers are silent", held.Silent, held.Of)
	}
}

// Held returns the hold on presence; nil without one.
func (p *Watch) Held() *registryv1.PresenceHeld {
	h := p.Unsettled()
	if h == nil || !p.records.Now().Before(h.Until.AsTime()) {
		return nil
	}
	return h
}

// Unsettled returns the hold on presence also after its limit, until those that stayed silent are recorded as offline;
// nil without one.
func (p *Watch) Unsettled() *registryv1.PresenceHeld {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hold
	if h.Since.IsZero() {
		return nil
	}
	return &registryv1.PresenceHeld{
		Silent: uint32(h.Silent), Of: uint32(h.Of),
		Since: timestamppb.New(h.Since), Until: timestamppb.New(h.Until),
	}
}
