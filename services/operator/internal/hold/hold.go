// Package hold builds the commands garrison hold and garrison unhold.
package hold

import (
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/hold"
	"github.com/garrison-fleet/garrison/pkg/record"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	environment "github.com/garrison-fleet/garrison/services/operator/internal/env"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

const long = `Hold an agent on servers: no install, upgrade, configuration, removal, undo, rollout or default changes
it there until the hold ends. Plans leave these servers out with the code HELD, and lists show the hold with its owner.
It is about every server that the selector matches, also later. A process that ends is still restarted, and drift is
healed; a server can still be decommissioned. To change the end or the reason, hold it again; --until never removes
the end.

--env holds every agent on the servers of an environment, whatever its windows are. Rollouts wait, and other changes
are refused with the code CLOSED; what has begun ends by itself, a new server still gets its defaults, and drift is
healed. garrison env show also prints those that have not begun.

--all pauses the site: every agent on every server, with a reason, and with an end within 31 days. Rollouts wait, also
those of the emergency lane, changes are refused, and none that is queued begins. A task that was assigned before the
pause begins in it, at once or when its server is back, and ends by itself: garrison task list --state
assigned,running names them. Nothing passes but the decommission of servers and requests for reports: end the pause
before an undo. garrison status shows it.`

// Command returns the command hold.
func Command(env *cli.Env) *cobra.Command {
	var servers selector.Flags
	var all bool
	var of string
	var from time.Time
	q := &holdv1.Hold{}
	c := &cobra.Command{
		Use:   "hold AGENT --on SELECTOR | --env ENVIRONMENT --until TIME | --all --until TIME -m WHY",
		Short: "Hold an agent, an environment or the site, until the hold ends.",
		Long:  long,
		Example: "  garrison hold beacon --on db-1 --until 2d -m \"incident 4711\"\n" +
			"  garrison hold beacon --on env=prod --until 2026-12-27\n" +
			"  garrison hold --env prod --from 2026-12-20 --until 2027-01-04 -m \"end of the year\"\n" +
			"  garrison hold --all --until 8h -m \"move of the data centre\"",
		Args: cli.AtMost("AGENT"), PreRunE: cli.Prints(env, display.Holds),
		SuggestFor: []string{"pin", "freeze", "lock", "pause"},
		RunE: func(c *cobra.Command, a []string) (err error) {
			if of != "" {
				return holdEnvironment(c, env, of, a, from, q.GetUntil())
			}
			if !from.IsZero() {
				return cli.Usage("--from is for --env. Try: garrison hold --env ENVIRONMENT --from TIME --until TIME")
			}
			if q.Agent, q.On, err = held(a, all, servers); err != nil {
				return err
			}
			if all && q.Until.AsTime().Unix() == 0 {
				return cli.Usage("--until is missing. Try: garrison hold --all --until 8h -m WHY")
			}
			h, _, err := cli.Put[*holdv1.Hold](c.Context(), env, record.Set(q))
			if err != nil {
				return err
			}
			is, end := h.GetAgent()+" is held on", "--id "+ident.Short(h.GetId())
			if all {
				is, end = "the site is paused:", "--all"
			}
			err = cli.Changed(env, display.Holds, h, "%s %s", is, listing.Plural(int(h.GetServers()), "server"))
			env.Say("to end it: garrison unhold %s", end)
			return err
		},
	}
	servers.Add(c)
	c.Flags().Var(cli.FlagValue{Read: func(text string) (err error) {
		if text == "never" {
			q.Until = &timestamppb.Timestamp{}
			return nil
		}
		until, err := cli.UntilReader(env.Now)(text)
		q.Until = timestamppb.New(until)
		return err
	}}, "until", "end it at this `TIME`: a duration such as 8h or 2d, a day such as 2026-12-27, or RFC 3339; without "+
		"it, or with never, the hold lasts until garrison unhold, but one that has an end keeps it unless it is never")
	c.Flags().Var(cli.ValueOf(&from, cli.UntilReader(env.Now), func(time.Time) string { return "" }), "from",
		"with --env: begin it at this `TIME` instead of at once")
	cli.TextVar(c.Flags(), &of, "env", cli.Name("environment"), "hold every agent on the servers of this `ENVIRONMENT`")
	c.Flags().BoolVar(&all, "all", false, "every agent on every server: pause the site")
	c.AddCommand(listCommand(env))
	return c
}

// holdEnvironment holds an environment.
func holdEnvironment(
	c *cobra.Command, env *cli.Env, name string, agents []string, from time.Time, until *timestamppb.Timestamp,
) error {
	if err := alone(c, agents); err != nil {
		return err
	}
	if until.AsTime().Unix() == 0 { // missing, or never
		return cli.Usage("--until is missing. Try: garrison hold --env %s --until 2d -m WHY", name)
	}
	why := c.Flags().Lookup("message").Value.String()
	f := &environmentv1.Freeze{Until: until, Reason: why}
	if !from.IsZero() {
		f.From = timestamppb.New(from)
	}
	return environment.Hold(c.Context(), env, name, f)
}

// alone refuses what --env excludes.
func alone(c *cobra.Command, agents []string) error {
	for _, name := range []string{"on", "not", "all", "id"} {
		if c.Flags().Changed(name) {
			return cli.Usage("--env and --%s exclude each other", name)
		}
	}
	if len(agents) > 0 {
		return cli.Usage("--env holds every agent. Try: %s %s --on env=ENVIRONMENT", c.CommandPath(), agents[0])
	}
	return nil
}

// held returns the agent that a command names, and the servers; "" and all servers with --all.
func held(a []string, all bool, servers selector.Flags) (string, *intentv1.Selector, error) {
	switch on, err := servers.Filter(); {
	case err != nil:
		return "", nil, err
	case all && (len(a) > 0 || on != nil):
		return "", nil, cli.Usage("--all is every agent on every server, and excludes AGENT, --on and --not")
	case all:
		return "", hold.Site(), nil
	case len(a) == 0:
		return "", nil, cli.Usage("AGENT is missing. Try: AGENT --on SELECTOR")
	}
	if err := ident.CheckName("agent", a[0]); err != nil {
		return "", nil, cli.Usage("%v", err)
	}
	on, err := servers.Selector()
	return a[0], on, err
}

// UnholdCommand returns the command unhold.
func UnholdCommand(env *cli.Env) *cobra.Command {
	var servers selector.Flags
	var all bool
	var of string
	q := record.Delete(ledger.Hold, "", 0)
	c := &cobra.Command{
		Use:   "unhold AGENT --on SELECTOR | --id HOLD | --env ENVIRONMENT | --all",
		Short: "End the holds of an agent on servers, one hold, those of an environment, or of the site.",
		Long: `End the holds of an agent on servers, or one hold by its id. A hold ends as a whole: one that is
also about servers that are not selected is refused, and named.`,
		Example: "  garrison unhold beacon --on db-1\n  garrison unhold --id 1a2b3c4d\n" +
			"  garrison unhold --env prod\n  garrison unhold --all",
		Args: cli.AtMost("AGENT"), PreRunE: cli.Prints(env, display.Holds), SuggestFor: []string{"unpin", "unlock"},
		RunE: func(c *cobra.Command, a []string) (err error) {
			switch {
			case of != "":
				if err := alone(c, a); err != nil {
					return err
				}
				return environment.Unhold(c.Context(), env, of)
			case len(a) > 0 && q.Key != "":
				return cli.Usage("--id and the agent %s exclude each other", a[0])
			case q.Key != "" && all:
				return cli.Usage("--id and --all exclude each other")
			case q.Key == "":
				if q.Agent, q.On, err = held(a, all, servers); err != nil {
					return err
				}
			}
			if all {
				q.Key, q.On = hold.ID("", q.On), nil
			}
			ended, err := cli.Delete[*holdv1.Hold](c.Context(), env, q)
			if err != nil {
				return err
			}
			env.Say("%s ended", listing.Plural(len(ended), "hold"))
			return output.Show(env.Output, display.Holds, ended, ended)
		},
	}
	servers.Add(c)
	cli.TextVar(c.Flags(), &of, "env", cli.Name("environment"), "end every hold of this `ENVIRONMENT`")
	c.Flags().BoolVar(&all, "all", false, "end the pause of the site; holds of single agents stay")
	cli.TextVar(c.Flags(), &q.Key, "id", cli.IDPrefix("a hold"), "end this `HOLD`, by id or the beginning of it")
	return c
}
