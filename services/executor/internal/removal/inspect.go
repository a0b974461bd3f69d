package removal

import (
	"context"
	"errors"
	"os"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/inventory"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/internal/monitor"
)

// inspectWithin bounds the requests to the bus.
const inspectWithin = 10 * time.Second

// Remaining is what an executor still has to do, by agent.
type Remaining struct {
	Agents    []string // with those of which files are left
	Changes   []string // open
	Inventory lifecycle.Inventory
	Doubt     string // why the inventory is not trusted
	lost      bool   // the journal exists, and may have forgotten agents
}

// facts are the findings with what is behind them.
type facts struct {
	lifecycle.Findings
	who       identity.Identity
	tombstone *serverv1.Tombstone
	left      Remaining
	processes []string // unmanaged, below the root
	outcome   lifecycle.Outcome
	items     []Item
}

// inspect gathers the facts. It changes nothing.
func (r *remover) inspect(ctx context.Context) (*facts, error) {
	f := &facts{}
	var err error
	f.Begun, _ = Marked(r.Root) // an invalid mark counts for nothing
	f.who, err = r.Executor.Identity()
	f.Identity = err == nil
	f.Missing = fault.Is(err, fault.NotFound) && layout.Missing(r.Root.Journal())
	if f.Missing && r.Tombstone == nil && layout.Missing(r.Root.Tombstone()) {
		return nil, err
	}
	if r.Tombstone != nil {
		f.ByTombstone, f.TombstoneServer = true, r.Tombstone.GetServerId()
	}
	if err := r.inspectAgents(f); err != nil {
		return nil, err
	}
	if f.items, err = Inventory(r.Root, f.left.Agents...); err != nil {
		return nil, err
	}
	switch {
	case r.Tombstone != nil:
		r.factsOfTombstone(f)
	case f.Identity:
		r.factsOfBus(ctx, f)
	}
	f.outcome = lifecycle.Decide(f.Facts)
	return f, nil
}

// inspectAgents reads what is left of the agents: from the journal, or, while an executor holds
// it, from that executor's status.
func (r *remover) inspectAgents(f *facts) (err error) {
	k, lost := known{}, "the journal is missing"
	if !layout.Missing(r.Root.Journal()) {
		err = journal.Look(r.Root.Journal(), func(tx *journal.Tx) (err error) {
			// a readable journal that is not the whole truth says why
			if lost, err = inventory.Look(r.Root, tx.Note(journal.NoteServer)).Older(tx); lost == "" && err == nil {
				lost = tx.Note(journal.NoteLost)
			}
			if err == nil {
				k, err = knownTo(tx)
			}
			if err == nil {
				f.left, err = remainingIn(tx)
			}
			return err
		})
		f.left.lost = lost != ""
	}
	switch {
	case errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrOlder):
		f.left = Remaining{
			lost: true, Inventory: lifecycle.InventoryUntrusted,
			Doubt: err.Error() + "; a start of the executor rebuilds it",
		}
		return nil
	case fault.Is(err, fault.Conflict):
		f.ExecutorRuns = true
		f.left, err = r.Executor.Reported()
		return err
	case err != nil:
		return err
	}
	if f.processes, err = unmanagedProcesses(r.Root, k); err != nil {
		return err
	}
	f.Unmanaged = len(f.processes) > 0
	f.left.Inventory, f.left.Doubt, err = compare(r.Root, k, lost, f.processes)
	return err
}

// remainingIn returns the agents and the open changes of a journal.
func remainingIn(tx *journal.Tx) (left Remaining, err error) {
	in, err := tx.Inventory()
	trash, err2 := tx.Trash()
	for _, i := range in.Instances {
		left.Agents = append(left.Agents, i.Agent)
	}
	for _, t := range trash {
		left.Agents = append(left.Agents, t.Agent)
	}
	for _, c := range in.Changes {
		left.Changes = append(left.Changes, c.Agent)
	}
	return left, errors.Join(err, err2)
}

// factsOfBus asks the bus, as the executor itself does.
func (r *remover) factsOfBus(ctx context.Context, f *facts) {
	access := bus.Access{Login: bus.LoginIn}
	conn, err := r.Executor.Dial(f.who, false)
	if err != nil {
		access.Login = bus.LoginOf(err)
	} else {
		defer conn.Close()
	}
	m := monitor.New(monitor.Config{
		Identity: f.who,
		Access:   func() bus.Access { return access },
		JWT:      func() string { return f.who.JWT },
		Log:      r.Log,
	})
	if conn != nil {
		ctx, cancel := context.WithTimeout(ctx, inspectWithin)
		defer cancel()
		d, err := link.Document(ctx, conn, f.who.Address())
		if m.DocumentRead(err); d != nil {
			m.Document(d)
		}
	}
	m.Remaining(engine.Remains{Instances: len(f.left.Agents), Changes: len(f.left.Changes)})
	m.Inventory(f.left.Inventory, f.left.Doubt)
	f.Facts, _ = m.Decide()
	f.tombstone = m.Tombstone()
}

// factsOfTombstone takes the tombstone for the document, and the command for the bus: it takes
// the receipt, for which alone the bus would be needed. Agents do not count as left: the command
// removes them. Unmanaged processes beside a sound journal have a code of their own.
func (r *remover) factsOfTombstone(f *facts) {
	d := &desiredv1.Document{Life: serverv1.Life_LIFE_DEAD, Tombstone: r.Tombstone}
	f.Life, f.Login, f.Reachable, f.Inventory = d.Life, lifecycle.LoginIn, true, lifecycle.InventoryTrusted
	f.Ownership = f.who.Owner()
	f.Proof = lifecycle.CheckTombstone(d, f.who.ServerID, f.who.Cell, f.who.TombstoneKey)
	entries, _ := os.ReadDir(r.Root.Agents())
	switch {
	case f.left.lost:
		f.Inventory = f.left.Inventory
	case layout.Missing(r.Root.Journal()) && len(entries) > 0:
		f.Inventory, f.left.Doubt = lifecycle.InventoryNone, r.Root.Journal()+" is missing"
	}
}
