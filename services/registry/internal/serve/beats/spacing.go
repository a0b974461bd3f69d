package beats

import (
	"iter"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/topology"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
)

// Spacing returns how rarely servers may beat at present.
func (p *Watch) Spacing() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return presence.LongestSpacing(p.Interval, max(p.spacing, p.Interval))
}

// setSpacing sets how often servers shall beat, by how many there are. Their next beats are answered with it. It must
// run with mu held.
func (p *Watch) setSpacing(servers int) {
	next := presence.Spacing(p.Interval, servers)
	if next == p.spacing {
		return
	}
	p.log.Debug().Dur("every", next).Int("servers", servers).Msg("servers shall beat at another interval")
	p.spacing = next
	p.hearing.Space(presence.LongestSpacing(p.Interval, next))
}

// space completes a beat with how often the server beats, and returns how often it is to be asked to; 0 for one that
// need not be asked. It must run with mu held.
func (p *Watch) space(beat *presence.Beat, before presence.Beat, said time.Duration) time.Duration {
	beat.Asked, beat.AskedFor = before.Asked, before.AskedFor
	beat.Every = beat.Says(said, p.Interval, p.spacing)
	if said == 0 {
		return 0 // an executor that does not know the question
	}
	next := beat.Ask(said, p.Interval, p.spacing)
	if next > 0 {
		beat.Asked, beat.AskedFor = beat.At, next
	}
	return next
}

// gone notes that the last connection of a server ended. One that did not beat since this process can hear it is known
// to be away, or not known at all.
func (p *Watch) gone(m bus.Message) {
	id, err := topology.ParseGoneSubject(m.Subject)
	if err != nil {
		return
	}
	now := p.records.Now()
	p.mu.Lock()
	last, ok := p.last[id]
	if ok = ok && last.Gone.IsZero() && last.At.After(p.hearing.Began()); ok {
		last.Gone, last.Asked, last.AskedFor = now, now, max(p.spacing, last.AskedFor)
		p.last[id] = last
	}
	p.mu.Unlock()
	if !ok {
		return
	}
	var s *serverv1.Server
	p.records.Follower.Read(func() { s, _ = p.records.View.Server(id) })
	if s != nil {
		p.Answers.ask(topology.ServerAddress{Cell: s.Cell, Server: id}, last.AskedFor)
	}
}

// askAgain adds to due what a server without a connection is asked: it may have connected again, and the question, or
// its answer, may be lost. It must run with mu held.
func (p *Watch) askAgain(s *serverv1.Server, now time.Time, due *dueNow) {
	last := p.last[s.Id]
	if last.Gone.IsZero() || s.Presence != serverv1.Presence_PRESENCE_ONLINE || now.Sub(last.Asked) < p.Interval {
		return
	}
	last.Asked = now
	p.last[s.Id] = last
	due.asks[topology.ServerAddress{Cell: s.Cell, Server: s.Id}] = last.AskedFor
}

// countManaged returns how many servers are under management.
func (p *Watch) countManaged() (n int) {
	p.inParts(func(servers iter.Seq[*serverv1.Server], _ time.Time, _ uint64) {
		for s := range servers {
			if server.Managed(s) {
				n++
			}
		}
	})
	return n
}
