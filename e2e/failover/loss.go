package failover

import (
	"context"
	"errors"
	"fmt"

	"github.com/garrison-fleet/garrison/e2e/fleet"
)

// Kind is how a server of the bus is lost.
type Kind string

// The kinds of losses.
const (
	None    Kind = "none"     // for comparison
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
	if l.Kind == None {
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

func (l Loss) begin(f *fleet.Fleet) error {
	member := f.Members[l.Member]
	switch l.Kind {
	case Killed:
		return member.Kill()
	case TwoDead:
		return errors.Join(member.Kill(), f.Members[(l.Member+1)%3].Kill())
	case Paused:
		return member.Pause()
	case CutOff:
		return f.CutOff(l.Member)
	}
	return nil
}

func (l Loss) end(f *fleet.Fleet) error {
	member := f.Members[l.Member]
	switch l.Kind {
	case Killed:
		return member.Start()
	case TwoDead:
		return errors.Join(member.Start(), f.Members[(l.Member+1)%3].Start())
	case Paused:
		return member.Resume()
	case CutOff:
		return f.Rejoin(l.Member)
	}
	return nil
}

// leads reports whether a server of the bus leads the ledger.
func (s *site) leads(ctx context.Context, member int) (leads bool, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		leader, err := s.LedgerLeader(ctx)
		leads = leader == member
		return err
	})
	return leads, err
}
