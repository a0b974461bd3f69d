package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// endTogether is how long the end of a change waits at most for the ends of others that
// are under way: a burst of changes is told in one list of what is there, not in as many.
const endTogether = 100 * time.Millisecond

// ending is a group of changes that end in one write.
type ending struct {
	changes []*change
	full    chan struct{} // closed when every change under way has joined
	done    chan struct{} // closed when it was written
	err     error         // read it after done
}

// endings puts changes that end together into groups.
type endings struct {
	mu       sync.Mutex
	underWay int
	open     *ending // which may still be joined; nil for none
}

func (g *endings) begun() {
	g.mu.Lock()
	g.underWay++
	g.mu.Unlock()
}

// gone forgets a change that has ended, or was left open.
func (g *endings) gone() {
	g.mu.Lock()
	g.underWay--
	g.mu.Unlock()
}

// join puts a change into the group that is open; whoever opened it writes it.
func (g *endings) join(c *change) (in *ending, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if first = g.open == nil; first {
		g.open = &ending{full: make(chan struct{}), done: make(chan struct{})}
	}
	in = g.open
	in.changes = append(in.changes, c)
	if len(in.changes) >= g.underWay {
		close(in.full)
		g.open = nil
	}
	return in, first
}

// shut lets nobody join a group any more.
func (g *endings) shut(in *ending) {
	g.mu.Lock()
	if g.open == in {
		g.open = nil
	}
	g.mu.Unlock()
}

// end closes the change in one write, perhaps together with others: how it ended, what is
// there now, and the reports. One that is alone waits for nobody.
func (c *change) end() error {
	in, first := c.endings.join(c)
	if first {
		select {
		case <-in.full:
		case <-time.After(endTogether):
		}
		c.endings.shut(in)
		in.err = c.endAll(in.changes)
		close(in.done)
	}
	<-in.done
	if in.err != nil {
		return in.err
	}
	c.cfg.FailPoint("ended")
	c.log.Info().Str(logs.State, c.rec.State().String()).Dur(logs.Took, time.Since(c.rec.BeganAt)).Msg("change ended")
	return nil
}

// endAll closes changes, and says first what is there after all of them.
func (e *Engine) endAll(changes []*change) error {
	e.saying.Lock()
	defer e.saying.Unlock()
	found, err := e.found()
	if err != nil {
		return err
	}
	shut := func(tx *journal.Tx) (err error) {
		for _, c := range changes {
			err = errors.Join(err, c.close(tx))
		}
		return err
	}
	say := func(tx *journal.Tx) error {
		err := tx.Say(e.agentsReport(found, tx.Place(), ""))
		for _, c := range changes {
			err = errors.Join(err, c.sayEnd(tx))
		}
		return err
	}
	if err := e.conclude(say, shut); err != nil {
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	e.mu.Lock()
	e.said = found
	e.mu.Unlock()
	return nil
}

func (c *change) sayEnd(tx *journal.Tx) error {
	if c.rec.Verb == taskv1.Verb_VERB_REMOVE && (c.rec.Failure == nil || c.rec.Committed) {
		if err := tx.Say(c.receipt()); err != nil {
			return err
		}
	}
	if c.rec.TaskID == "" {
		return nil
	}
	return tx.Say(c.taskReport(c.rec.TaskID, c.rec.State(), c.rec.Outcome()))
}
