package removal

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// errSettled ends an engine that has no change under way.
var errSettled = errors.New("no change is under way")

// removeAgents runs an engine with a document that says that the server is dead: interrupted
// changes end, and agents are stopped and removed, each with its receipt. It returns when nothing
// is left, when something cannot be removed, or with ctx.
func (r *remover) removeAgents(ctx context.Context, who identity.Identity, j *journal.Journal) error {
	if !agentsLeft(j) {
		return nil
	}
	from, generation := lastReport(j)
	config, done, err := r.Executor.Engine(who, j)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	config.Left = func(left engine.Remains) {
		if left.Changes == 0 { // whatever is left was tried
			cancel(errSettled)
		}
	}
	e := engine.New(config)
	e.Offer(&desiredv1.Document{
		ServerId: who.ServerID, Cell: who.Cell, Generation: generation,
		Life: serverv1.Life_LIFE_DEAD, Tombstone: r.Tombstone,
	})
	if err := e.Run(ctx); err != nil {
		return err
	}
	r.noteReceipts(j, from)
	why := context.Cause(ctx)
	reason := ""
	switch {
	case !agentsLeft(j):
		return nil
	case errors.Is(why, errSettled):
		reason = code.AgentsStay
	case errors.Is(why, context.DeadlineExceeded):
		reason = code.TimedOut
	default:
		return why
	}
	return fault.Refusef(fault.Denied, reason, "not removed: %s; the log says why", describeLeft(j)).
		Try("executor uninstall --dry-run --root " + string(r.Root)).From("executor")
}

// agentsLeft reports whether the journal has something for an engine to remove. What cannot be
// read counts as such.
func agentsLeft(j *journal.Journal) bool {
	var left Remaining
	err := j.Read(func(tx *journal.Tx) (err error) { left, err = remainingIn(tx); return err })
	return err != nil || len(left.Agents)+len(left.Changes) > 0
}

// lastReport returns the number of the last report in the outbox, and the generation of the last document.
func lastReport(j *journal.Journal) (sequence, generation uint64) {
	_ = j.Read(func(tx *journal.Tx) error { // an unreadable journal fails the removal later
		generation = tx.Applied()
		waiting, err := tx.Waiting(journal.MaxOutbox)
		if len(waiting) > 0 {
			sequence = waiting[len(waiting)-1].Sequence
		}
		return err
	})
	return sequence, generation
}

// noteReceipts copies what was removed with the agents from their receipts, which no bus takes.
func (r *remover) noteReceipts(j *journal.Journal, from uint64) {
	_ = j.Read(func(tx *journal.Tx) error { // on an error the outcome only names less
		waiting, err := tx.Waiting(journal.MaxOutbox)
		for _, p := range waiting {
			report := &reportv1.Report{}
			if p.Sequence <= from || proto.Unmarshal(p.Data, report) != nil {
				continue
			}
			for _, removed := range report.GetReceipt().GetRemoved() {
				r.noteOne(removed)
			}
		}
		return err
	})
}

// describeLeft names what the journal still has, with its reasons.
func describeLeft(j *journal.Journal) string {
	var words []string
	_ = j.Read(func(tx *journal.Tx) error { // on an error the text only names less
		in, err := tx.Inventory()
		for _, i := range in.Instances {
			words = append(words, "agent "+i.Agent)
		}
		trash, err2 := tx.Trash()
		for _, t := range trash {
			words = append(words, "files of agent "+t.Agent+" ("+t.Why+")")
		}
		for _, open := range in.Changes {
			words = append(words, "the change of agent "+open.Agent)
		}
		return errors.Join(err, err2)
	})
	return strings.Join(words, ", ")
}
