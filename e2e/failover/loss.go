package failover

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/fault"
)

// Kind is how a server of the bus is lost.
type Kind string

// The kinds of losses.
const (
	Alone   Kind = "alone"    // for comparison: a bus of one server, which is not lost
	None    Kind = "none"     // for comparison
	Lagging Kind = "lagging"  // it is paused for a moment now and then, so that its replicas are behind
	Killed  Kind = "killed"   // SIGKILL; its connections break
	Paused  Kind = "paused"   // SIGSTOP; its connections stay
	CutOff  Kind = "cut off"  // nothing passes between it and anybody else
	TwoDead Kind = "two dead" // it and the next one are killed, so that nothing can be recorded
)

// Loss takes one or two servers of the bus away.
type Loss struct {
	Kind   Kind
	Member int // the first one that is lost, from 0
}

func (l Loss) String() string {
	if l.Kind == None || l.Kind == Alone {
		return string(l.Kind)
	}
	return fmt.Sprintf("%s %d", l.Kind, l.Member+1)
}

// Each returns a loss of each server of the bus, in turn.
func Each(kinds ...Kind) (all []Loss) {
	for _, k := range kinds {
		for n := range 3 {
			all = append(all, Loss{k, n})
		}
	}
	return all
}

// fault returns what is wrong while the loss lasts; nothing for those that compare.
func (l Loss) fault(f *rig.Fleet) fault.Fault {
	switch l.Kind {
	case Killed:
		return fault.Killed(f.Members[l.Member])
	case TwoDead:
		return fault.Killed(f.Members[l.Member], f.Members[(l.Member+1)%3])
	case Paused:
		return fault.Paused(f.Members[l.Member])
	case CutOff:
		return fault.CutOff(f, l.Member)
	}
	return fault.Fault{}
}

const (
	// lagFor is how long a server of the bus that lags is paused at a time, less than its peers take for a loss.
	lagFor = 400 * time.Millisecond
	// lagEvery is the time between two such pauses.
	lagEvery = 2 * time.Second
)

// leads reports whether a server of the bus leads the ledger.
func (s *site) leads(ctx context.Context, l Loss) (leads bool, err error) {
	if l.Kind == Alone {
		return true, nil
	}
	err = s.within(ctx, func(ctx context.Context) error {
		leader, err := s.LedgerLeader(ctx)
		leads = leader == l.Member
		return err
	})
	return leads, err
}

// Name names the loss or, of a total, its kind and how many losses it sums up.
func (r Row) Name() string {
	if r.Rows > 0 {
		return fmt.Sprintf("%s x%d", r.Loss.Kind, r.Rows)
	}
	return r.Loss.String()
}

// Percentile returns how long so many percent of sorted waits lasted at most; 0 without any.
func Percentile(waits []time.Duration, percent int) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	return waits[(len(waits)-1)*percent/100]
}

// Totals sums up the rows of each kind that has several: the longest times, the percentiles of all intents, and the
// sums of everything that is counted.
func Totals(rows []Row) (totals []Row) {
	for _, r := range rows {
		n := slices.IndexFunc(totals, func(t Row) bool { return t.Loss.Kind == r.Loss.Kind })
		if n < 0 {
			n, totals = len(totals), append(totals, Row{Loss: Loss{Kind: r.Loss.Kind}})
		}
		totals[n].add(r)
	}
	return slices.DeleteFunc(totals, func(t Row) bool { return t.Rows < 2 })
}

func (r *Row) add(other Row) {
	r.Rows++
	r.Gap, r.Decided = max(r.Gap, other.Gap), max(r.Decided, other.Decided)
	r.Upgrade, r.Settled = max(r.Upgrade, other.Upgrade), max(r.Settled, other.Settled)
	r.Intents += other.Intents
	r.Waited = append(r.Waited, other.Waited...)
	slices.Sort(r.Waited)
	r.Ended = append(r.Ended, other.Ended...)
	slices.Sort(r.Ended)
	r.Verb = max(r.Verb, other.Verb)
	r.Wrong.add(other.Wrong)
}

func (w *Wrong) add(other Wrong) {
	w.Offline += other.Offline
	w.Lost += other.Lost
	w.Unheard += other.Unheard
	w.Doubled += other.Doubled
	w.Reads += other.Reads
	w.Verbs += other.Verbs
}
