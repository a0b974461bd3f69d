package failover

import (
	"context"
	"fmt"
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
