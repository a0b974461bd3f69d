package decide

import (
	"context"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// lookWithin bounds one question for the end of the ledger.
const lookWithin = 5 * time.Second

// looks asks where the ledger ends, once for all that wait: however many decisions about unknown things
// are asked for, one question is under way. A caller receives the answer to a question that was asked
// after the call began.
type looks struct {
	ledger Ledger

	mu    sync.Mutex
	next  *look // for callers that come now; nil when none waits
	asked bool  // a question is under way
}

type look struct {
	done chan struct{} // closed when it is answered
	end  uint64
	err  error
}

// end returns the sequence of the ledger's last fact.
func (l *looks) end(ctx context.Context) (uint64, error) {
	l.mu.Lock()
	if l.next == nil {
		l.next = &look{done: make(chan struct{})}
	}
	mine := l.next
	if !l.asked {
		l.asked = true
		go l.ask()
	}
	l.mu.Unlock()
	select {
	case <-mine.done:
		return mine.end, mine.err
	case <-ctx.Done():
		return 0, fault.New(fault.Unavailable, "look for the end of the ledger: %w", ctx.Err())
	}
}

// ask asks until no caller waits.
func (l *looks) ask() {
	for {
		l.mu.Lock()
		now := l.next
		l.next = nil
		if now == nil {
			l.asked = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
		s, err := l.ledger.Stream(ctx, topology.Ledger)
		cancel()
		now.end, now.err = s.LastSequence, err
		close(now.done)
	}
}
