package link

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	sentFor   = 3 * time.Minute // longer than a bus takes to have on its disk what it acknowledged (topology.Streams)
	sentCount = 256
	sentBytes = 1 << 20
)

// sent remembers the reports that were acknowledged a short time ago, the oldest first: a
// bus that runs on a single server may forget them when it is killed. Of the kinds that
// say how things are, only the last one counts.
type sent struct {
	mu      sync.Mutex
	reports []acknowledged
	bytes   int
	lost    bool      // the bus was away since, and has perhaps forgotten them
	up      time.Time // when the bus was last known to be there: reports age until then
	beat    time.Time // the last beat
}

type acknowledged struct {
	Report
	at time.Time
}

// add remembers a report. It goes when it is old, when the next one of its kind takes its
// place, or when there are too many.
func (s *sent) add(r Report, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.reports, func(a acknowledged) bool { return a.Sequence == r.Sequence }); i >= 0 {
		s.reports[i].at = now // said again
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

// drop is called with the lock held.
func (s *sent) drop(which func(acknowledged) bool) {
	s.reports = slices.DeleteFunc(s.reports, func(a acknowledged) bool {
		gone := which(a)
		if gone {
			s.bytes -= len(a.Data)
		}
		return gone
	})
}

// doubt says that the bus was away.
func (s *sent) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
}

// connected records that a beat was sent. A bus that was killed forgot what it had
// acknowledged shortly before its end, however long it is away then. The beat before this
// one counts: this one may be the first after an absence, sent before doubt is called.
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

// doubted returns what is to be said again, if the bus was away.
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

// repeat says again what the bus may have forgotten. It knows each by its id, so what it
// did not forget is not there twice.
func (l *Link) repeat(ctx context.Context) error {
	for _, r := range l.sent.doubted() {
		if err := l.publishOne(ctx, r); err != nil {
			l.sent.doubt()
			return err
		}
	}
	return nil
}
