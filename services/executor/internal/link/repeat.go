package link

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	sentFor   = 3 * time.Minute // longer than a bus needs to sync what it acknowledged (topology.Streams)
	sentCount = 256
	sentBytes = 1 << 20
)

// sent keeps the recently acknowledged reports, the oldest first: a bus of a single server may lose
// them when it is killed. Of the kinds that report a state, only the last one counts.
type sent struct {
	mu      sync.Mutex
	reports []acknowledged
	bytes   int
	lost    bool      // disconnected since, so the bus may have lost them
	up      time.Time // when the bus was last known to be reachable: reports age until then
	beat    time.Time // the last beat
}

type acknowledged struct {
	Report
	at time.Time
}

// add keeps a report, until it is old, the next one of its kind replaces it, or there are too many.
func (s *sent) add(r Report, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.reports, func(a acknowledged) bool { return a.Sequence == r.Sequence }); i >= 0 {
		s.reports[i].at = now // published again
		return
	}
	replaced := r.Kind == topology.ReportAgents || r.Kind == topology.ReportSysinfo
	s.drop(func(a acknowledged) bool { return now.Sub(a.at) > sentFor || replaced && a.Kind == r.Kind })
	s.up = later(s.up, now)
	s.reports = append(s.reports, acknowledged{r, now})
	s.bytes += len(r.Data)
	for len(s.reports) > sentCount || s.bytes > sentBytes {
		s.bytes -= len(s.reports[0].Data)
		s.reports = s.reports[1:]
	}
}

// drop drops reports. The caller holds the lock.
func (s *sent) drop(which func(acknowledged) bool) {
	s.reports = slices.DeleteFunc(s.reports, func(a acknowledged) bool {
		gone := which(a)
		if gone {
			s.bytes -= len(a.Data)
		}
		return gone
	})
}

// doubt records a disconnect.
func (s *sent) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
}

// connected records that a beat was sent. A killed bus lost what it had acknowledged shortly before
// its end, however long it is unreachable then. The beat before this one counts: this one may be the
// first after a disconnect, sent before doubt is called.
func (s *sent) connected(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lost {
		s.up, s.beat = later(s.up, s.beat), now
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// doubted returns the reports to publish again after a disconnect.
func (s *sent) doubted() []Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(a acknowledged) bool { return s.up.Sub(a.at) > sentFor })
	if !s.lost {
		return nil
	}
	s.lost = false
	out := make([]Report, len(s.reports))
	for i, a := range s.reports {
		out[i] = a.Report
	}
	return out
}

// repeat publishes again what the bus may have lost. What it did not lose it stores twice, which changes
// nothing: the services record what a report changes.
func (l *Link) repeat(ctx context.Context) error {
	for _, r := range l.sent.doubted() {
		if err := l.publishOne(ctx, r); err != nil {
			l.sent.doubt()
			return err
		}
	}
	return nil
}
