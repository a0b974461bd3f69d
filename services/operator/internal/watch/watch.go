// Package watch follows intents until all of their changes have ended, and prints the outcome.
//
//  1. Each poll costs the same, however many servers an intent changes.
//  2. Leaving the view, by Ctrl-C or by a time-out, never stops the work; how to return is printed.
//  3. While a service or the bus does not answer, the view retries.
package watch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// NamedEnds is the largest number of outcomes that get a line each, and of changes of an intent that are all listed.
const NamedEnds = 50

// watcher follows intents until all of their changes have ended. Each poll costs the same, whatever their size.
type watcher struct {
	env      *cli.Env
	orders   []Order
	progress []display.Progress // of the orders, at the last poll
	names    map[string]string  // of servers
	dead     map[string]int     // how many servers of an order are known to be dead, by its id
	reported map[string]bool    // ids of tasks whose outcome was printed or grouped
	reasons  map[string]bool    // reasons of failures that were printed
	line     *output.Live
	started  time.Time
	pace     pace
	said     time.Time // time of the last progress line without a terminal
	quiet    bool
}

// Options say how intents are followed.
type Options struct {
	Timeout time.Duration
	Quiet   bool // show nothing before the end
}

// Follow follows intents until all of their changes have ended, and prints the outcome.
func Follow(ctx context.Context, env *cli.Env, o Options, orders []Order) error {
	orders = slices.DeleteFunc(slices.Clone(orders), func(o Order) bool { return o.Record.GetChanged() == 0 })
	if len(orders) == 0 {
		env.Say("nothing to do")
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, cli.ErrWaited)
	defer cancel()
	v := &watcher{
		env: env, orders: orders, names: map[string]string{}, reported: map[string]bool{},
		dead: map[string]int{}, reasons: map[string]bool{},
		line: env.Live(), started: env.Now(), said: time.Now(), quiet: o.Quiet,
	}
	v.line.On = v.line.On && !o.Quiet
	defer v.line.End()
	if err := v.follow(ctx); err != nil {
		v.line.End()
		return env.Left(ctx, err, v.returnCommands())
	}
	v.line.End()
	return v.conclude(context.WithoutCancel(ctx))
}

// follow polls until everything has ended: soon after facts of the ledger, and every second.
func (v *watcher) follow(ctx context.Context) error {
	c, err := v.env.Client(ctx)
	if err != nil {
		return err
	}
	return c.Await(ctx, func(ctx context.Context) (bool, error) {
		done, err := v.poll(ctx)
		if !done && (err == nil || fault.Is(err, fault.Unavailable)) {
			v.show(err)
		}
		return done, err
	})
}

// poll reads the progress of the intents, prints new outcomes, and reports whether everything has ended.
func (v *watcher) poll(ctx context.Context) (done bool, err error) {
	all := make([]display.Progress, 0, len(v.orders))
	done = true
	for _, o := range v.orders {
		p, err := fleet.Progress(ctx, v.env, o.Id, NamedEnds)
		if err != nil {
			return false, err
		}
		ended, err := v.ended(ctx, o, p)
		if err != nil {
			return false, err
		}
		all, done = append(all, p), done && ended
	}
	v.progress = all
	v.report(ctx)
	return done, nil
}

// ended reports whether an order has ended: for a decommission or a reinstall, when the server is dead or empty, or a
// removal on it failed.
func (v *watcher) ended(ctx context.Context, o Order, p display.Progress) (bool, error) {
	if o.Intent.GetDecommission().GetOn() != nil && p.GetEnded() && display.Failed(p.GetCounts()) == 0 {
		return v.allDead(ctx, o)
	}
	reinstalled := o.Intent.GetReinstall().GetServer()
	id := cmp.Or(o.Dying, reinstalled)
	if !p.GetEnded() || id == "" || display.Failed(p.GetCounts()) > 0 {
		return p.GetEnded(), nil
	}
	found, err := fleet.Server(ctx, v.env, id)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	if reinstalled != "" {
		return found.GetReinstall().GetIntentId() != o.Id, err
	}
	return found.GetLife() == serverv1.Life_LIFE_DEAD, err
}

// allDead reports whether every server that a decommission names is dead. It asks about each of them until it is.
func (v *watcher) allDead(ctx context.Context, o Order) (bool, error) {
	ids := o.Record.GetServerIds()
	for ; v.dead[o.Id] < len(ids); v.dead[o.Id]++ {
		found, err := fleet.Server(ctx, v.env, ids[v.dead[o.Id]])
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil || found.GetLife() != serverv1.Life_LIFE_DEAD {
			return false, err
		}
	}
	return true, nil
}

// rows returns the known tasks: all of a small intent, the first failures of a large one.
func (v *watcher) rows() []display.Task {
	var out []display.Task
	for _, p := range v.progress {
		out = append(out, endRows(p)...)
	}
	return out
}

// report prints each outcome once; of a large intent only the first failures.
func (v *watcher) report(ctx context.Context) {
	var news []display.Task
	for _, t := range v.rows() {
		if display.TaskEnded(t) && !v.reported[t.GetId()] && len(v.reported) < NamedEnds {
			v.reported[t.GetId()] = true
			news = append(news, t)
		}
	}
	v.learnNames(ctx)
	if v.quiet {
		return
	}
	_ = fleet.OpenOutputs(ctx, v.env, news) // a viewer sees the rest
	for _, t := range news {
		if failed(t) { // each reason is printed in full once, and equal ones are counted at the end
			reason := display.TaskReason(t)
			if reason != "" && v.reasons[reason] {
				continue
			}
			v.reasons[reason] = true
		}
		v.line.Say("%s", v.endText(t))
		if line := display.TellingLine(t); line != "" && failed(t) {
			v.line.Say("  last output: %s", line)
		}
	}
}

// learnNames reads the names of servers that are still unknown.
func (v *watcher) learnNames(ctx context.Context) {
	var unknown []display.Task
	shown := v.rows()
	for _, p := range v.progress {
		shown = append(append(shown, p.GetUnderWay()...), p.GetOfflineTasks()...)
	}
	for _, t := range shown {
		if _, ok := v.names[t.GetServerId()]; !ok {
			unknown = append(unknown, t)
		}
	}
	if len(unknown) == 0 {
		return
	}
	for id, name := range fleet.ServerNames(ctx, v.env, unknown) {
		v.names[id] = name
	}
}

// returnCommands returns the command that shows the same work again.
func (v *watcher) returnCommands() string {
	out := "garrison watch"
	for _, o := range v.orders {
		out += " " + ident.Handle(o.Id)
	}
	return out
}

// Order is an intent to publish, and the registry's decision about it.
type Order struct {
	Verb    string
	Intent  *intentv1.Intent
	Agent   string
	Dying   string // the server that the order retires
	Without string // the outcome to print when it takes no task

	Id     string
	Record *intentv1.Record
}
