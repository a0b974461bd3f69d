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

// Spacing returns how often servers shall beat at present.
func (p *Watch) Spacing() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.spacing, p.Interval)
}

// setSpacing sets how often servers shall beat, by how many there are. Their next beats are answered with it. It must
// run with mu held.
func (p *Watch) setSpacing(servers int) {
	next := presence.Spacing(p.spacing, p.Interval, servers)
	if next == p.spacing {
		return
	}
	p.log.Info().Dur("every", next).Int("servers", servers).Msg("servers beat at another interval")
	p.spacing = next
	p.hearing.Space(next)
}

// askSpacing returns at which interval a server is to be asked to beat, and 0 for one that need not be asked, or was a
// moment ago. It must run with mu held.
func (p *Watch) askSpacing(last *presence.Beat) time.Duration {
	next := last.NextSpacing(p.Interval, p.spacing)
	if next == 0 || last.At.Sub(last.Asked) < p.Interval {
		return 0
	}
	last.Asked = last.At
	return next
}

// gone notes that the last connection of a server ended, and asks the server for a beat: it may have connected again
// meanwhile. One that did not beat since this process can hear it is known to be away, or not known at all.
func (p *Watch) gone(m bus.Message) {
	id, err := topology.ParseGoneSubject(m.Subject)
	if err != nil {
		return
	}
	now := p.records.Now()
	p.mu.Lock()
	last, ok := p.last[id]
	if ok = ok && last.Gone.IsZero() && last.At.After(p.hearing.Began()); ok {
		last.Gone = now
		p.last[id] = last
	}
	every := p.spacing
	p.mu.Unlock()
	if !ok {
		return
	}
	p.records.Follower.Read(func() {
		if s, ok := p.records.View.Server(id); ok {
			p.Answers.ask(topology.ServerAddress{Cell: s.Cell, Server: id}, every)
		}
	})
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
