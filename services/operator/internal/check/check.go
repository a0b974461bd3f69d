// Package check builds garrison check, which compares what is wanted with what is there, and cures what differs.
package check

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// scopes are the words for what is compared.
var scopes = map[string]registryv1.CheckScope{
	"servers": registryv1.CheckScope_CHECK_SCOPE_SERVERS, "instances": registryv1.CheckScope_CHECK_SCOPE_AGENTS,
}

// defaultRows is how many differences are printed unless --limit says otherwise.
const defaultRows = 1000

// flags are the flags of check.
type flags struct {
	servers selector.Flags
	agent   string
	count   bool
	limit   uint32
	fix     bool
	work    work.Flags
}

// Command returns the command check.
func Command(env *cli.Env) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "check [servers|instances] [--on SELECTOR] [--agent AGENT]",
		Short: "Compare what is wanted with what is there: causes and cures.",
		Long: `Compare what is wanted with what is there, server by server and agent by agent, and show each difference
with its cause, since when, and its cure. Six servers or more that differ in the same way share a row; -o wide lists
each. garrison explain CAUSE explains a cause. Servers and
instances are counted by their state in garrison status: one of them may differ in several ways, and what is under way
differs too.

The exit code is 0 when nothing differs, and 3 when something does. What is done about drift in the environments of
the servers that differ is printed below: garrison env update NAME --drift report|heal|hold.

With --fix, cure what commands cure: group the cures by command, show them, ask, do them, watch them, and compare
again. What a person must do is printed. The exit code is then 0 when all is cured, 5 when a part is, and 3 when
nothing is.`,
		Example: "  garrison check\n" +
			"  garrison check instances --on env=prod --agent node-exporter\n" +
			"  garrison check --count\n" +
			"  garrison check --fix --on env=prod",
		Args: cli.AtMost("servers or instances"), ValidArgs: []string{"servers", "instances"},
		RunE: func(c *cobra.Command, a []string) error {
			q, err := f.request(a)
			if err != nil {
				return err
			}
			return show(c.Context(), env, f, q)
		},
	}
	f.servers.Add(c)
	cli.TextVar(c.Flags(), &f.agent, "agent", cli.Name("agent"), "only this `AGENT`")
	c.Flags().BoolVar(&f.fix, "fix", false, "cure what commands cure")
	c.Flags().BoolVar(&f.work.DryRun, "dry-run", false, "with --fix: show the commands and do nothing")
	f.work.AddYes(c)
	cli.NoteVar(c.Flags(), &f.work.Note)
	f.work.AddAtOnce(c)
	cli.TimeVar(c.Flags(), &f.work.Timeout, "timeout", time.Hour, 0,
		"with --fix: stop watching after this `DURATION`, with exit code 7; the work continues")
	c.Flags().BoolVar(&f.count, "count", false, "count the differences by cause instead of listing them")
	cli.LimitVar(c.Flags(), &f.limit, "limit", defaultRows,
		"list at most this many `ROWS`, or all; the others are counted")
	return c
}

// request returns what to compare.
func (f *flags) request(args []string) (*registryv1.CheckFleetRequest, error) {
	on, err := f.servers.Filter()
	if err != nil {
		return nil, err
	}
	q := &registryv1.CheckFleetRequest{On: on, Agent: f.agent, CountOnly: f.count}
	if len(args) > 0 {
		scope, known := scopes[args[0]]
		if !known {
			return nil, cli.Usage("unexpected argument %q. Try: garrison check instances", args[0])
		}
		q.Scope = scope
	}
	if !f.fix && (f.work.Yes || f.work.DryRun || f.work.Note != "") {
		return nil, cli.Usage("--yes, --message and --dry-run require --fix")
	}
	if f.fix && f.count {
		return nil, cli.Usage("--fix and --count exclude each other")
	}
	if q.Scope == registryv1.CheckScope_CHECK_SCOPE_SERVERS && f.agent != "" {
		return nil, cli.Usage("--agent and servers exclude each other. Try: garrison check instances --agent %s",
			f.agent)
	}
	return q, nil
}

// show prints the differences.
func show(ctx context.Context, env *cli.Env, f flags, q *registryv1.CheckFleetRequest) error {
	var err error
	if f.count {
		err = cli.Prints(env, counts)(nil, nil)
	} else {
		err = cli.Prints(env, display.Differences)(nil, nil)
	}
	if err != nil {
		return err
	}
	limit := int(f.limit)
	if f.fix {
		limit = 0 // all are cured, not only those that are listed
	}
	r, err := fleet.Compare(ctx, env, q, limit)
	if err != nil {
		return err
	}
	if r.GetServers() == 0 && q.GetOn() != nil {
		return fault.Refusef(fault.NotFound, code.NoServers, "no server matches the selector, so nothing was compared").
			Near(fleet.NearestTerm(ctx, env, q.GetOn())).Try("garrison server list")
	}
	if f.fix {
		if sayCompared(env, r); fleet.Differing(r) == 0 {
			return nil
		}
		return fix(ctx, env, f.work, q, r)
	}
	if f.count {
		rows := countsOf(r)
		err = output.Show(env.Output, counts, countList{r.GetServers(), r.GetAgents(), rows}, rows)
	} else {
		err = list(env, r)
	}
	if err != nil {
		return err
	}
	if left := fleet.Differing(r) - len(r.GetDifferences()); left > 0 && !f.count {
		env.Say("… and %d more; --limit all lists them, --count counts them by cause", left)
	}
	sayCompared(env, r)
	if fleet.Differing(r) > 0 {
		return cli.Ended(cli.ExitDifferent)
	}
	return nil
}

// list prints the differences that were listed.
func list(env *cli.Env, r *registryv1.CheckFleetResponse) error {
	rows, share := r.GetDifferences(), false
	if env.Output.Format == output.FormatTable && env.Output.Filter == nil {
		rows, share = alike(rows)
	}
	err := output.Show(env.Output, display.Differences, r, rows)
	if err == nil && share {
		env.Say("servers that differ in the same way share a row; -o wide lists each")
	}
	return err
}

// sayCompared prints what is done about drift, what was compared and how much differs.
func sayCompared(env *cli.Env, r *registryv1.CheckFleetResponse) {
	for _, d := range r.GetDrift() {
		env.Say("drift in environment %s: %s", d.GetEnvironment(), display.Drift(d))
	}
	if h := r.GetPresenceHeld(); h != nil {
		env.Say("%s", display.PresenceHeld(env.Output.View(), h))
	}
	compared := listing.Plural(int(r.GetServers()), "server") + " and " + listing.Plural(int(r.GetAgents()), "agent")
	if n := fleet.Differing(r); n > 0 {
		env.Say("compared %s: %s", compared, listing.Plural(n, "difference"))
		return
	}
	env.Say("compared %s: nothing differs", compared)
}

// count is how many differences a cause has.
type count struct {
	Cause string `json:"cause"`
	Count uint32 `json:"count"`
}

// countList is the document that holds counts.
type countList struct {
	Servers uint32  `json:"servers"`
	Agents  uint32  `json:"agents"`
	Causes  []count `json:"causes"`
}

// counts lists how many differences each cause has.
var counts = listing.Listing[count]{
	Name: func(c count) string { return c.Cause },
	Columns: []listing.Column[count]{
		listing.Col("CAUSE", func(c count) string { return c.Cause }),
		listing.Col("COUNT", func(c count) string { return listing.Count(c.Count) }).Numeric(),
	},
}

func countsOf(r *registryv1.CheckFleetResponse) []count {
	out := []count{}
	for _, c := range r.GetCauses() {
		out = append(out, count{c.GetCause(), c.GetCount()})
	}
	return out
}
