package removal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
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
	Agents    []string // with those whose files are left
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

// why returns the reason of the outcome with its particulars.
func (f *facts) why() string {
	if lifecycle.OfInventory(f.outcome.Code) && f.left.Doubt != "" {
		return f.outcome.Why() + ": " + f.left.Doubt
	}
	return f.outcome.Why()
}

// notUninstalled returns why the executor stays and what to try, or else a given advice.
func (f *facts) notUninstalled(otherwise string) (text, try string) {
	switch {
	case f.outcome.Code != "":
		return decisions[f.outcome.Action] + ", " + f.outcome.Code + ": " + f.why(), otherwise
	case f.Life == serverv1.Life_LIFE_ALIVE:
		return "the server is alive", "garrison server decommission " + f.who.ServerID
	}
	return decisions[f.outcome.Action] + "; the life of the server is " + lifeOf(f.Life), otherwise
}

// print writes the decision, every fact behind it, and every path, for a person.
func (f *facts) print(out io.Writer, c Config) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	decision := decisions[f.outcome.Action]
	if f.Begun != "" {
		decision = decisions[lifecycle.Uninstall] + ", begun for server " + f.Begun
	} else if f.outcome.Code != "" {
		decision += ", " + f.outcome.Code + ": " + f.why()
	}
	for _, line := range []struct {
		name  string
		value any
	}{
		{"DECISION", decision},
		{"root", c.Root},
		{"server", cmp.Or(f.who.ServerID, "unknown")},
		{"executor running", yes(f.ExecutorRuns)},
		{"identity readable", yes(f.Identity)},
		{"ownership", ownerships[f.Ownership]},
		{"life in the document", lifeOf(f.Life)},
		{"tombstone", f.Proof},
		{"login", f.Login},
		{"bus connected", yes(f.Reachable)},
		{"inventory", f.left.Inventory},
		{"agents left", cmp.Or(strings.Join(f.left.Agents, ", "), "none")},
		{"open changes", cmp.Or(strings.Join(f.left.Changes, ", "), "none")},
	} {
		fmt.Fprintf(w, "%s\t%v\n", line.name, line.value)
	}
	fmt.Fprintln(w, "\nPATH\tWHEN THE EXECUTOR REMOVES ITSELF")
	for _, item := range f.items {
		what := "is removed"
		if item.Agent != "" {
			what = "is removed earlier, with agent " + item.Agent
		} else if item.LeftBecause != "" {
			what = "stays: " + item.LeftBecause
		}
		fmt.Fprintf(w, "%s\t%s\n", item.Path, what)
	}
	for _, path := range installedByHand(c.Program) {
		fmt.Fprintf(w, "%s\tstays: %s\n", path, byHand)
	}
	return w.Flush()
}

// decisions are the actions in the words of a preview.
var decisions = map[lifecycle.Action]string{
	lifecycle.Work:      "the executor stays and works",
	lifecycle.Suspend:   "the executor stays, suspended",
	lifecycle.Rest:      "the executor stays, and has nothing to do",
	lifecycle.Uninstall: "the executor removes itself",
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

var ownerships = map[serverv1.Ownership]string{
	serverv1.Ownership_OWNERSHIP_UNSPECIFIED: "unknown",
	serverv1.Ownership_OWNERSHIP_MANUAL:      "manual",
	serverv1.Ownership_OWNERSHIP_PROVISIONED: "provisioned",
}

func lifeOf(l serverv1.Life) string {
	if l == serverv1.Life_LIFE_UNSPECIFIED {
		return "unknown: no document was read"
	}
	return strings.ToLower(strings.TrimPrefix(l.String(), "LIFE_"))
}
