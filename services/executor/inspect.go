package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/fate"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
	"github.com/garrison-fleet/garrison/services/executor/internal/uninstall"
)

// Inspection is the decision about an executor, with everything that it is made from.
type Inspection struct {
	root    layout.Root
	who     identity.Identity
	left    remains
	marked  string // the server whose uninstall was begun
	judge   *judge
	facts   fate.Facts
	verdict fate.Verdict
	items   []uninstall.Item
}

// inspectWithin bounds what is asked of the bus.
const inspectWithin = 10 * time.Second

// Uninstall decides what becomes of the executor under the root and does it, when it is
// to remove itself and does not run; otherwise it is refused. With dryRun it only prints
// the decision, every fact that it is made from, and every path that would go.
func Uninstall(ctx context.Context, cfg Config, dryRun bool, out io.Writer) error {
	x := New(cfg)
	var err error
	if x.root, err = layout.New(cfg.Root); err != nil {
		return err
	}
	if _, err := identity.Read(x.root); fault.Is(err, fault.NotFound) && notThere(x.root.Tombstone()) && notThere(x.root.Journal()) {
		return err
	}
	if dryRun {
		i, err := x.inspect(ctx)
		if err != nil {
			return err
		}
		return i.print(out)
	}
	if done, err := x.finishUninstall(); done || err != nil {
		return err
	}
	return x.uninstallHere(ctx)
}

// inspect gathers the facts without changing any.
func (x *Executor) inspect(ctx context.Context) (*Inspection, error) {
	i := &Inspection{root: x.root}
	i.marked, _ = uninstall.Marked(x.root) // one that does not hold counts for nothing
	var err error
	if i.left, err = x.leftHere(); err != nil {
		return nil, err
	}
	if i.items, err = uninstall.Inventory(x.root, i.left.agents...); err != nil {
		return nil, err
	}
	who, err := x.who()
	if err != nil {
		i.verdict = fate.Decide(i.facts)
		return i, nil
	}
	i.who = who
	access := bus.Access{Login: bus.LoginAway}
	conn, err := x.dial(who, false)
	if err != nil {
		access.Login = bus.LoginOf(err)
	} else {
		defer conn.Close()
		access.Login = bus.LoginIn
	}
	i.judge = x.newJudge(who, func() bus.Access { return access }, x.cfg.Log)
	if conn != nil {
		ctx, cancel := context.WithTimeout(ctx, inspectWithin)
		defer cancel()
		d, err := link.Document(ctx, conn, who.Address())
		if i.judge.heard(err); d != nil {
			i.judge.believe(d)
		}
	}
	i.judge.left(engine.Remains{Instances: len(i.left.agents), Changes: len(i.left.changes)})
	i.judge.facts.Inventory, i.judge.doubt = i.left.inventory, i.left.doubt
	i.verdict = i.judge.decide()
	i.facts = i.judge.facts
	return i, nil
}

// remains is what an executor has still to do, by agent.
type remains struct {
	agents, changes []string
	runs            bool           // an executor has the journal
	inventory       fate.Inventory // what this is worth
	doubt           string         // why it is worth no more
	lost            bool           // there is a journal, and it may have forgotten agents
}

// leftHere gives the agents, those of which files are left too, and the open changes: from
// the journal, or, when an executor has that, as its status tells.
func (x *Executor) leftHere() (r remains, err error) {
	if notThere(x.root.Journal()) {
		r.inventory, r.doubt, err = x.compare(known{}, "the journal is not there")
		return r, err
	}
	k, lost := known{}, ""
	err = journal.Look(x.root.Journal(), func(tx *journal.Tx) (err error) {
		if lost, err = lostOf(tx, x.root); err != nil {
			return err
		}
		if k, err = knownTo(tx); err != nil {
			return err
		}
		all, err := tx.Instances()
		if err != nil {
			return err
		}
		for _, i := range all {
			r.agents = append(r.agents, i.Agent)
		}
		trash, err := tx.Trash()
		if err != nil {
			return err
		}
		for _, t := range trash {
			r.agents = append(r.agents, t.Agent)
		}
		open, err := tx.Changes()
		for _, c := range open {
			r.changes = append(r.changes, c.Agent)
		}
		return err
	})
	switch {
	case errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrOlder):
		return remains{lost: true, inventory: fate.InventoryUntrusted, doubt: err.Error() + "; a start of the executor builds it again"}, nil
	case err == nil:
		r.inventory, r.doubt, err = x.compare(k, lost)
		r.lost = lost != ""
		return r, err
	case !fault.Is(err, fault.Conflict):
		return r, err
	}
	r.runs, r.inventory = true, fate.InventoryTrusted
	s, err := ReadStatus(string(x.root))
	if s.Code == fate.CodeNoInventory || s.Code == fate.CodeInventoryUntrusted {
		r.inventory, r.doubt = fate.InventoryUntrusted, s.Reason
	}
	for _, a := range s.Agents {
		r.agents = append(r.agents, a.Agent)
		if a.Step != "" {
			r.changes = append(r.changes, a.Agent)
		}
	}
	return r, err
}

// uninstallHere does what the decision allows, as a run would.
func (x *Executor) uninstallHere(ctx context.Context) error {
	i, err := x.inspect(ctx)
	if err != nil {
		return err
	}
	if i.left.runs {
		return fault.Refuse(fault.Conflict, &apiv1.Refusal{
			Component: "executor", Code: "EXECUTOR_RUNS", Message: "an executor runs in " + string(x.root) + "; it removes itself when it may",
			Try: "executor uninstall --dry-run --root " + string(x.root),
		})
	}
	if i.verdict.Fate != fate.Uninstall {
		return fault.Refuse(fault.Denied, &apiv1.Refusal{
			Component: "executor", Code: codeOf(i.verdict), Message: fmt.Sprintf("the decision is %s: %s %s", i.verdict.Fate, i.verdict.Code, i.why()),
			Try: "executor uninstall --dry-run --root " + string(x.root),
		})
	}
	open := journal.OpenWhole
	if notThere(x.root.Journal()) {
		open = journal.Open // no executor ever ran here, and nothing on the disk says otherwise
	}
	j, err := open(x.root.Journal())
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }()
	conn, err := x.dial(i.who, true)
	if err != nil {
		return err
	}
	defer conn.Close()
	l := link.New(link.Config{Conn: conn, Address: i.who.Address(), BootID: sysinfo.BootID(), Version: version.Version, Root: x.root, Door: &door{journal: j}, Log: x.cfg.Log})
	if err := x.uninstall(ctx, uninstaller{who: i.who, tombstone: i.judge.tombstone, journal: j, link: l}); err != nil {
		return err
	}
	if !notThere(x.root.Identity()) {
		return errors.Join(ctx.Err(), fault.New(fault.Unavailable, "the last receipt is not stored yet, so nothing was removed"))
	}
	return nil
}

// codeOf names a refusal to uninstall: an inventory that proves nothing has codes of its own.
func codeOf(v fate.Verdict) string {
	if v.Code == fate.CodeNoInventory || v.Code == fate.CodeInventoryUntrusted {
		return v.Code
	}
	return "NOT_UNINSTALLED"
}

// why returns the reason of the verdict, with what it leaves out.
func (i *Inspection) why() string {
	if codeOf(i.verdict) == i.verdict.Code && i.left.doubt != "" {
		return i.verdict.Why() + ": " + i.left.doubt
	}
	return i.verdict.Why()
}

// print writes the decision for a person.
func (i *Inspection) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	say := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }
	decision := i.verdict.Fate.String()
	if i.marked != "" {
		decision = "uninstall, begun for server " + i.marked
	} else if i.verdict.Code != "" {
		decision += ", " + i.verdict.Code + ": " + i.why()
	}
	say("DECISION", decision)
	say("root", i.root)
	say("server", cmp.Or(i.who.ServerID, "unknown"))
	say("an executor runs here", yes(i.left.runs))
	say("identity can be read", yes(i.facts.Identity))
	say("who made the machine", ownershipWord(i.facts))
	say("life in the document", lifeWord(i.facts.Life))
	say("tombstone", i.facts.Proof)
	say("login", i.facts.Login)
	say("bus can be reached", yes(i.facts.Reachable))
	say("inventory", i.left.inventory)
	say("agents left", listWord(i.left.agents))
	say("changes under way", listWord(i.left.changes))
	fmt.Fprintln(w, "\nPATH\tWHEN THE EXECUTOR REMOVES ITSELF")
	for _, item := range i.items {
		what := "goes"
		if item.Agent != "" {
			what = "goes before, with agent " + item.Agent
		} else if item.LeftBecause != "" {
			what = "stays: " + item.LeftBecause
		}
		fmt.Fprintf(w, "%s\t%s\n", item.Path, what)
	}
	for _, path := range installedByHand() {
		fmt.Fprintf(w, "%s\tstays: %s\n", path, byHand)
	}
	return w.Flush()
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func lifeWord(l serverv1.Life) string {
	if l == serverv1.Life_LIFE_UNSPECIFIED {
		return "unknown: no document was read"
	}
	return word(l.String(), "LIFE_")
}

func listWord(names []string) string { return cmp.Or(strings.Join(names, ", "), "none") }

func ownershipWord(f fate.Facts) string {
	switch f.Ownership {
	case serverv1.Ownership_OWNERSHIP_MANUAL:
		return "a person (manual)"
	case serverv1.Ownership_OWNERSHIP_PROVISIONED:
		return "a provisioner (provisioned)"
	}
	return "unknown"
}
