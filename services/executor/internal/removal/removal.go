// Package removal removes the executor from its server: its agents, where a command cleans up
// after it, and then its own files. It gathers facts, asks package lifecycle, and acts.
//
// Guarantees:
//
//  1. One decision, lifecycle.Decide, allows every removal: by the executor that runs (Last),
//     and by a command in its place, with the bus or with a tombstone brought by hand (Run).
//  2. Nothing is removed before the mark is on the disk, and the mark holds both facts that
//     allow the removal. From then on each step is repeatable: after a kill at any instant the
//     next start completes it.
//  3. Only what the inventory lists is removed. Anything else under the root stays and is
//     named; so does the file of image keys, unless it is as the join wrote it.
//  4. A mark that is invalid, or that was made from another identity or key than those beside
//     it, removes nothing.
//  5. A dry run changes nothing.
package removal

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
)

// Executor is what a removal uses of the executor that it removes.
type Executor interface {
	// Identity returns the identity under the root.
	Identity() (identity.Identity, error)
	// Dial connects to the bus, in the background when it is to persist.
	Dial(who identity.Identity, persist bool) (*bus.Conn, error)
	// Link returns a link that sends the reports of a journal.
	Link(who identity.Identity, conn *bus.Conn, j *journal.Journal) *link.Link
	// OpenJournal opens a server's journal; one that was lost or is damaged is rebuilt.
	OpenJournal(server string) (*journal.Journal, error)
	// Engine returns the config of an engine without a bus that never replaces its process.
	Engine(who identity.Identity, j *journal.Journal) (engine.Config, func(), error)
	// Reported returns what the executor that runs under the root last reported.
	Reported() (Remaining, error)
}

// Config is what a removal needs.
type Config struct {
	Root      layout.Root
	Executor  Executor
	Program   string                     // that was installed by hand; empty when that is unknown
	KeepMark  bool                       // for the next start of a container, which would join again
	Expect    func(within time.Duration) // tells the service manager how long the next step may take; may be nil
	Log       zerolog.Logger
	FailPoint func(point string) // called between the steps, for tests; may be nil
}

// Options are those of a command.
type Options struct {
	DryRun bool
	Out    io.Writer // where a dry run without a tombstone prints the decision

	// Tombstone is what the server's document would bring. With it the command needs no bus: it removes the agents as
	// well, and Report takes the receipt.
	Tombstone *serverv1.Tombstone
	// Report takes the outcome once, before the last trace of the executor goes.
	Report func(*reportv1.CleanUpOutcome) error
}

// Within is how long the agents of a dead server usually need.
const Within = 2 * time.Minute

// Run decides what becomes of the executor under the root, and removes it where the decision
// allows that and no executor runs; otherwise it refuses. With a tombstone it removes the
// agents first. An interrupted Run may be repeated. An error is NotFound where no server joined.
func Run(ctx context.Context, c Config, o Options) error {
	r := &remover{Config: c, Options: o, outcome: &reportv1.CleanUpOutcome{
		ServerId: o.Tombstone.GetServerId(), DryRun: o.DryRun,
	}}
	if o.Tombstone == nil {
		return r.run(ctx)
	}
	err := r.run(ctx)
	r.outcome.At = timestamppb.Now()
	if err != nil {
		r.outcome.Refusal = refusalOf(err)
	}
	reported := o.Report(r.outcome)
	if err != nil || reported != nil || o.DryRun {
		return errors.Join(err, reported)
	}
	_, err = r.erase(c.KeepMark) // the mark and its directories are all that is left
	return err
}

// remover is one run of the command.
type remover struct {
	Config
	Options
	outcome *reportv1.CleanUpOutcome
}

func (r *remover) run(ctx context.Context) error {
	f, err := r.inspect(ctx)
	if err != nil {
		return err
	}
	if r.DryRun && r.Tombstone == nil {
		return f.print(r.Out, r.Config)
	}
	begun, code := lifecycle.DecideRemoval(f.Findings)
	switch {
	case code != "":
		return r.refuse(f, code)
	case r.DryRun:
		r.note(f.items)
		return nil
	case begun:
		return r.complete()
	case r.Tombstone == nil:
		return r.overBus(ctx, f)
	}
	j, err := r.Executor.OpenJournal(f.who.ServerID)
	if err != nil {
		return err
	}
	err = r.byTombstone(ctx, f, j)
	if err = errors.Join(err, j.Close()); err != nil {
		return err
	}
	return r.complete()
}

// overBus does what the running executor would do: it sends the receipt and removes everything.
func (r *remover) overBus(ctx context.Context, f *facts) error {
	open := journal.OpenWhole
	if layout.Missing(r.Root.Journal()) {
		open = journal.Open // no executor ever ran here, and nothing on the disk says otherwise
	}
	j, err := open(r.Root.Journal())
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }()
	conn, err := r.Executor.Dial(f.who, true)
	if err != nil {
		return err
	}
	defer conn.Close()
	done, err := Last(ctx, r.Config, Server{
		Identity: f.who, Tombstone: f.tombstone, Journal: j, Link: r.Executor.Link(f.who, conn, j),
	})
	if err == nil && !done {
		err = errors.Join(ctx.Err(),
			fault.New(fault.Unavailable, "the last receipt is not stored yet; nothing was removed"))
	}
	return err
}

// byTombstone removes the agents and writes the mark. The journal is held meanwhile, so that no
// executor starts beside it.
func (r *remover) byTombstone(ctx context.Context, f *facts, j *journal.Journal) error {
	if err := r.removeAgents(ctx, f.who, j); err != nil {
		return err
	}
	f.Instances = agentsLeft(j)
	unmanaged, err := unmanagedProcesses(r.Root, known{}) // the agents are gone, so everything is unmanaged
	if err != nil {
		return err
	}
	f.processes, f.Unmanaged = unmanaged, len(unmanaged) > 0
	if _, code := lifecycle.DecideRemoval(f.Findings); code != "" {
		return r.refuse(f, code)
	}
	mark, err := NewMark(f.who, r.Tombstone)
	if err != nil {
		return err
	}
	return Begin(r.Config, mark)
}

// complete removes everything that the mark allows. With a tombstone the mark itself stays until
// the outcome is reported: the next try finds it and reports again.
func (r *remover) complete() error {
	if r.Tombstone == nil {
		_, err := Complete(r.Config)
		return err
	}
	items, err := Inventory(r.Root)
	if err != nil {
		return err
	}
	if _, err := r.erase(true); err != nil {
		return err
	}
	r.note(items)
	return nil
}

// erase removes what the mark allows. An executor that was started meanwhile does the same, and
// may have been faster.
func (r *remover) erase(keepMark bool) ([]Item, error) {
	c := r.Config
	c.KeepMark = keepMark
	left, err := Finish(c)
	if fault.Is(err, fault.NotFound) && layout.Missing(r.Root.Home()) {
		return nil, nil
	}
	return left, err
}

// refuse returns the refusal with a code of lifecycle.DecideRemoval.
func (r *remover) refuse(f *facts, reason string) error {
	kind, try := fault.Denied, "executor uninstall --dry-run --root "+string(r.Root)
	var text string
	switch {
	case reason == code.ExecutorRuns && r.Tombstone == nil:
		kind, text = fault.Conflict, "an executor runs in "+string(r.Root)+"; it removes itself when it may"
	case reason == code.ExecutorRuns:
		text = "an executor runs in " + string(r.Root) + "; only that one may remove its agents"
	case reason == code.NoExecutor:
		host, _ := os.Hostname() // without a name the root alone identifies the place
		text = string(
			r.Root,
		) + " on host \"" + host + "\" has neither an identity nor a journal: already cleaned, or never joined; " +
			"the two look the same, so this is not recorded as cleaned"
		try = "check that this is the machine and the --root of the join and that none of its agents run; then: " +
			"garrison server forget " + r.Tombstone.GetServerId()
	case reason == code.ProcessesStay:
		text = "processes run below " + string(r.Root) + " that the journal does not know: " +
			strings.Join(f.processes, ", ")
	case reason == code.OtherTombstone:
		text = "the tombstone is of server \"" + r.Tombstone.GetServerId() + "\" in site \"" + r.Tombstone.GetCell() +
			"\"; this is server " + cmp.Or(f.Begun, f.who.ServerID)
	case reason == code.BadTombstone:
		text = "the tombstone was not signed by the registry to which this server belongs"
	case reason == code.NotProven:
		text = "this identity is older than tombstones and has no key to check one with"
	case reason == code.NotUninstalled:
		text, try = f.notUninstalled(try)
	default:
		text = f.why()
	}
	return fault.Refusef(kind, reason, "%s", text).Try(try).From("executor")
}

// refusalOf returns an error as the outcome reports it.
func refusalOf(err error) *apiv1.Refusal {
	if r := fault.RefusalOf(err); r != nil {
		return r
	}
	why := code.NotCleaned
	if fault.Is(err, fault.Conflict) { // of the journal
		why = code.ExecutorRuns
	}
	return &apiv1.Refusal{Component: "executor", Code: why, Message: err.Error()}
}

// note adds what is removed and what stays to the outcome.
func (r *remover) note(items []Item) {
	for _, removed := range removedItems(r.Root, items) {
		r.noteOne(removed)
	}
}

func (r *remover) noteOne(one *reportv1.Removed) {
	if one.LeftBecause == "" {
		r.outcome.Removed++
	} else {
		r.outcome.Left++
	}
	if len(r.outcome.Paths) < maxReceipt {
		r.outcome.Paths = append(r.outcome.Paths, one)
	}
}
