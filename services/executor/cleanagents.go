package executor

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// removeAgents lets an engine do what it does when the document says that the server is
// dead: interrupted changes end, and agents are stopped and removed, each with its receipt.
// It returns when nothing is left, when something cannot go, or with ctx.
func (c *cleaner) removeAgents(ctx context.Context, j *journal.Journal) error {
	if !agentsLeft(j) {
		return nil
	}
	from, generation := said(j)
	config, done, err := c.engineConfig(j)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	config.Left = func(r engine.Remains) {
		if r.Changes == 0 { // what is left was tried, and nothing is under way
			cancel(errSettled)
		}
	}
	e := engine.New(config)
	e.Offer(c.document(generation))
	if err := e.Run(ctx); err != nil {
		return err
	}
	c.noteReceipts(j, from)
	why := context.Cause(ctx)
	switch {
	case !agentsLeft(j):
		return nil
	case errors.Is(why, errSettled):
		return c.refuse("AGENTS_STAY", "not removed yet: %s", c.stuck(j))
	case errors.Is(why, context.DeadlineExceeded):
		return c.refuse("TIMED_OUT", "not removed in the time that was given: %s", c.stuck(j))
	}
	return why
}

// document is what the server's own would say now, had it been read.
func (c *cleaner) document(generation uint64) *desiredv1.Document {
	return &desiredv1.Document{ServerId: c.who.ServerID, Cell: c.who.Cell, Generation: generation, Life: serverv1.Life_LIFE_DEAD, Tombstone: c.Tombstone}
}

// errSettled ends an engine that has nothing to do any more.
var errSettled = errors.New("nothing is under way")

// engineConfig gives the engine of an executor that has no bus and is not to be replaced.
// The supervisor is the one that ran the agents.
func (c *cleaner) engineConfig(j *journal.Journal) (engine.Config, func(), error) {
	c.x.cfg.Supervisor = SupervisorDirect
	err := j.Read(func(tx *journal.Tx) error {
		if tx.Note(noteSupervisor) == SupervisorSystemd {
			c.x.cfg.Supervisor = SupervisorAuto
		}
		return nil
	})
	if err != nil {
		return engine.Config{}, nil, err
	}
	c.x.self = &self{root: c.x.root, cfg: c.x.cfg, log: c.x.cfg.Log, began: time.Now(), why: "this process cleans up after it"}
	config, done, err := c.x.engineConfig(c.who, j, nil, c.x.cfg.Log)
	config.Fetcher = nobody{}
	return config, done, err
}

// agentsLeft says whether the journal knows of something that an engine is to remove. What
// cannot be read counts as such.
func agentsLeft(j *journal.Journal) (left bool) {
	err := j.Read(func(tx *journal.Tx) error {
		instances, err := tx.Instances()
		changes, err2 := tx.Changes()
		trash, err3 := tx.Trash()
		left = len(instances)+len(changes)+len(trash) > 0
		return errors.Join(err, err2, err3)
	})
	return left || err != nil
}

// said gives the number of the last report that waits, and the generation of the last document.
func said(j *journal.Journal) (sequence, generation uint64) {
	_ = j.Read(func(tx *journal.Tx) error { // one that cannot be read is found by whoever goes on
		generation = tx.Applied()
		waiting, err := tx.Waiting(journal.MaxOutbox)
		if len(waiting) > 0 {
			sequence = waiting[len(waiting)-1].Sequence
		}
		return err
	})
	return sequence, generation
}

// noteReceipts takes what was removed with agents from their receipts, which no bus takes.
func (c *cleaner) noteReceipts(j *journal.Journal, from uint64) {
	_ = j.Read(func(tx *journal.Tx) error { // the outcome says less, then
		waiting, err := tx.Waiting(journal.MaxOutbox)
		for _, p := range waiting {
			r := &reportv1.Report{}
			if p.Sequence <= from || proto.Unmarshal(p.Data, r) != nil {
				continue
			}
			for _, removed := range r.GetReceipt().GetRemoved() {
				c.noteOne(removed)
			}
		}
		return err
	})
}

// stuck names what the journal still has, and why where it says so.
func (c *cleaner) stuck(j *journal.Journal) string {
	var words []string
	_ = j.Read(func(tx *journal.Tx) error { // the words for it are all that is lost
		instances, err := tx.Instances()
		for _, i := range instances {
			words = append(words, "agent "+i.Agent)
		}
		trash, err2 := tx.Trash()
		for _, t := range trash {
			words = append(words, "files of agent "+t.Agent+" ("+t.Why+")")
		}
		changes, err3 := tx.Changes()
		for _, open := range changes {
			words = append(words, "the change of agent "+open.Agent)
		}
		return errors.Join(err, err2, err3)
	})
	return strings.Join(words, ", ") + "; the log says why"
}
