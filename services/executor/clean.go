package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/fate"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/uninstall"
)

// CleanUp is an uninstall in the place of an executor that does not run any more: somebody
// brings the tombstone that its document would have brought, and takes the receipt.
type CleanUp struct {
	Tombstone *serverv1.Tombstone
	DryRun    bool                                 // say what would be done, and change nothing
	Tell      func(*reportv1.CleanUpOutcome) error // told once how it ended, before the last trace of it goes
}

// Clean removes the agents of the inventory, as a decommission does, and then everything
// else that an uninstall removes, when the same decision allows it; otherwise it removes
// nothing. It needs no bus. Interrupted at any instant, it is to be called again.
func Clean(ctx context.Context, cfg Config, o CleanUp) error {
	root, err := layout.New(cfg.Root)
	if err != nil {
		return err
	}
	x := New(cfg)
	x.root = root
	c := &cleaner{x: x, CleanUp: o, outcome: &reportv1.CleanUpOutcome{ServerId: o.Tombstone.GetServerId(), DryRun: o.DryRun}}
	err = c.clean(ctx)
	c.outcome.At = timestamppb.Now()
	if err != nil {
		c.outcome.Refusal = refusalOf(err)
	}
	told := o.Tell(c.outcome)
	if err != nil || told != nil || o.DryRun {
		return errors.Join(err, told)
	}
	return c.remove(c.x.uninstallOptions()) // only the mark is left, and its directories
}

// cleaner is one clean-up.
type cleaner struct {
	CleanUp
	x       *Executor
	who     identity.Identity
	outcome *reportv1.CleanUpOutcome

	inventory fate.Inventory
	doubt     string
}

func (c *cleaner) clean(ctx context.Context) error {
	marked, _ := uninstall.Marked(c.x.root) // one that does not hold counts for nothing
	if marked != "" {
		return c.goOn(marked)
	}
	left, err := c.x.leftHere()
	if err != nil {
		return err
	}
	if left.runs {
		return c.refuse("EXECUTOR_RUNS", "an executor runs in %s: as long as it does, the clean-up is its own", c.x.root)
	}
	if c.inventory = fate.InventoryTrusted; left.lost { // what only runs beside a sound one has a code of its own
		c.inventory, c.doubt = left.inventory, left.doubt
	}
	if err := c.decide(false); err != nil {
		return err
	}
	if err := c.lookForStrangers(); err != nil {
		return err
	}
	if c.DryRun {
		items, err := uninstall.Inventory(c.x.root, left.agents...)
		c.note(items)
		return err
	}
	j, err := c.x.openJournal(c.who.ServerID)
	if err != nil {
		return err
	}
	err = c.begin(ctx, j)
	if err = errors.Join(err, j.Close()); err != nil {
		return err
	}
	return c.finish()
}

// goOn finishes an uninstall that was begun.
func (c *cleaner) goOn(marked string) error {
	if marked != c.Tombstone.GetServerId() {
		return c.refuse("OTHER_TOMBSTONE", "the tombstone is of server %q, and what is left here is of %s", c.Tombstone.GetServerId(), marked)
	}
	if !c.DryRun {
		return c.finish()
	}
	items, err := uninstall.Inventory(c.x.root)
	c.note(items)
	return err
}

// begin removes the agents and writes the mark; the journal is held meanwhile, so that no
// executor starts beside this.
func (c *cleaner) begin(ctx context.Context, j *journal.Journal) error {
	if err := c.removeAgents(ctx, j); err != nil {
		return err
	}
	if err := c.decide(agentsLeft(j)); err != nil {
		return err
	}
	if err := c.onlyKnown(known{}); err != nil { // what was known is gone
		return err
	}
	mark, err := uninstall.NewMark(c.who, c.Tombstone)
	if err != nil {
		return err
	}
	return uninstall.Begin(c.x.root, mark, c.x.uninstallOptions())
}

// decide asks the decision that every executor asks. Whoever brought the tombstone takes
// the receipt too, which is all that the bus would be needed for.
func (c *cleaner) decide(agents bool) error {
	who, err := c.x.who()
	if fault.Is(err, fault.NotFound) && notThere(c.x.root.Journal()) {
		return c.nothingHere()
	}
	f := fate.Facts{Identity: err == nil, Life: serverv1.Life_LIFE_DEAD, Login: fate.LoginIn, Reachable: true, Instances: agents, Inventory: c.inventory}
	if err == nil {
		c.who, f.Ownership, f.Proof = who, who.Owner(), proofOf(c.document(0), who)
	}
	if v := fate.Decide(f); v.Fate != fate.Uninstall {
		return c.refuse(v.Code, "%s", c.why(v))
	}
	if entries, _ := os.ReadDir(c.x.root.Agents()); len(entries) > 0 && notThere(c.x.root.Journal()) {
		return c.refuse("NO_INVENTORY", "%s is gone, so nobody knows which agents are installed in %s", c.x.root.Journal(), c.x.root.Agents())
	}
	return nil
}

// nothingHere refuses where there is nothing of an executor. Whether a clean-up whose answer
// was lost took it, or this is not where it was, looks the same, and there is no key to check
// the tombstone with: to call that clean could be wrong about a machine with agents on it.
func (c *cleaner) nothingHere() error {
	host, _ := os.Hostname() // one without a name is looked for by its root alone
	return fault.Refuse(fault.Denied, &apiv1.Refusal{
		Component: "executor", Code: "NO_EXECUTOR",
		Message: fmt.Sprintf("%s on host %q has neither an identity nor a journal: everything went in an earlier clean-up, or nobody ever joined there; that cannot be told apart, so it does not count as cleaned", c.x.root, host),
		Try:     "is that the machine and the --root of the join, and does nothing of it run there any more? Then: garrison server forget " + c.Tombstone.GetServerId(),
	})
}

// why says why a verdict is no leave, where the words for a document do not fit.
func (c *cleaner) why(v fate.Verdict) string {
	switch v.Code {
	case "BAD_TOMBSTONE":
		return "the tombstone was not signed by the registry to which this server belongs"
	case "OTHER_TOMBSTONE":
		return fmt.Sprintf("the tombstone is of server %q in site %q, and this is %q in %q", c.Tombstone.GetServerId(), c.Tombstone.GetCell(), c.who.ServerID, c.who.Cell)
	case fate.CodeInventoryUntrusted, fate.CodeNoInventory:
		return v.Why() + ": " + c.doubt
	case "NOT_PROVEN":
		return "the identity here is older than tombstones, and has no key to check one with"
	}
	return v.Why()
}

// finish removes everything but the mark, which goes when the outcome was told: interrupted
// before that, the next try finds it and tells again.
func (c *cleaner) finish() error {
	items, err := uninstall.Inventory(c.x.root)
	if err != nil {
		return err
	}
	options := c.x.uninstallOptions()
	options.Keep = true
	if err := c.remove(options); err != nil {
		return err
	}
	c.note(items)
	return nil
}

// remove removes what a mark allows. An executor that was started meanwhile does the same,
// and may have been quicker.
func (c *cleaner) remove(o uninstall.Options) error {
	_, err := uninstall.Finish(c.x.root, o)
	if fault.Is(err, fault.NotFound) && notThere(c.x.root.Home()) {
		return nil
	}
	return err
}

// note writes into the outcome what goes and what stays.
func (c *cleaner) note(items []uninstall.Item) {
	for _, i := range items {
		path := strings.ToValidUTF8(c.x.root.Relative(i.Path), "?")
		c.noteOne(&reportv1.Removed{Path: path, LeftBecause: i.LeftBecause, Foreign: i.Foreign()})
	}
}

func (c *cleaner) noteOne(r *reportv1.Removed) {
	if r.LeftBecause == "" {
		c.outcome.Removed++
	} else {
		c.outcome.Left++
	}
	if len(c.outcome.Paths) < maxReceipt {
		c.outcome.Paths = append(c.outcome.Paths, r)
	}
}

func (c *cleaner) refuse(code, format string, args ...any) error {
	return fault.Refuse(fault.Denied, &apiv1.Refusal{
		Component: "executor", Code: code, Message: fmt.Sprintf(format, args...), Try: "executor uninstall --dry-run --root " + string(c.x.root),
	})
}

// refusalOf gives an error as the outcome says it.
func refusalOf(err error) *apiv1.Refusal {
	if r := fault.RefusalOf(err); r != nil {
		return r
	}
	if fault.Is(err, fault.Conflict) { // of the journal
		return &apiv1.Refusal{Component: "executor", Code: "EXECUTOR_RUNS", Message: err.Error()}
	}
	return &apiv1.Refusal{Component: "executor", Code: "NOT_CLEANED", Message: err.Error()}
}

// CleanUpWithin is how long the agents of a dead server may take to go, usually.
const CleanUpWithin = 2 * time.Minute
