// Package hold builds the commands garrison hold and garrison unhold.
package hold

import (
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ident"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

// Command returns the command hold.
func Command(env *cli.Env) *cobra.Command {
	var servers selector.Flags
	var until time.Time
	q := &registryv1.SetHoldRequest{}
	c := &cobra.Command{
		Use:   "hold AGENT --on SELECTOR",
		Short: "Hold an agent on servers: nothing changes it until the hold ends.",
		Long: `Hold an agent on servers: no install, upgrade, configuration, removal, undo, rollout or default changes
it there until the hold ends. Plans leave these servers out with the code HELD, and lists show the hold with its owner.
It is about every server that the selector matches, also later. A process that ends is still restarted, and drift is
healed; a server can still be decommissioned. To change the end or the reason, hold it again.`,
		Example: "  garrison hold beacon --on db-1 --until 2d -m \"incident 4711\"\n" +
			"  garrison hold beacon --on env=prod --until 2026-12-27\n" +
			"  garrison hold list",
		Args: cli.Exactly("AGENT"), PreRunE: cli.Prints(env, display.Holds),
		SuggestFor: []string{"pin", "freeze", "lock"},
		RunE: func(c *cobra.Command, a []string) (err error) {
			q.Agent = a[0]
			if err := ident.CheckName("agent", q.Agent); err != nil {
				return cli.Usage("%v", err)
			}
			if q.On, err = servers.Selector(); err != nil {
				return err
			}
			if !until.IsZero() {
				q.Until = timestamppb.New(until)
			}
			r, err := cli.Call[*registryv1.SetHoldResponse](c.Context(), env, q)
			if err != nil {
				return err
			}
			h := r.GetHold()
			err = cli.Changed(env, display.Holds, h, "%s is held on %s", h.GetAgent(),
				output.Plural(int(h.GetServers()), "server"))
			env.Say("to end it: garrison unhold --id %s", ident.Short(h.GetId()))
			return err
		},
	}
	servers.Add(c)
	c.Flags().Var(cli.ValueOf(&until, cli.UntilReader(env.Now), func(time.Time) string { return "" }), "until",
		"end it at this `TIME`: a duration such as 8h or 2d, a day such as 2026-12-27, or RFC 3339; without it, the "+
			"hold lasts until garrison unhold")
	cli.NoteVar(c.Flags(), &q.Reason)
	c.AddCommand(listCommand(env))
	return c
}

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	var servers selector.Flags
	c := &cobra.Command{
		Use: "list [AGENT]", Example: "  garrison hold list --on env=prod",
		Short: "List the holds that are in effect.", Args: cli.AtMost("AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			q := &registryv1.ListHoldsRequest{}
			if len(a) > 0 {
				q.Agent = a[0]
			}
			var err error
			if q.On, err = servers.Filter(); err != nil {
				return err
			}
			return cli.List(c.Context(), env, page, display.Holds,
				cli.Ask[*registryv1.ListHoldsResponse](env, q))
		},
	}
	page.Add(c, 0)
	servers.Add(c)
	return c
}

// UnholdCommand returns the command unhold.
func UnholdCommand(env *cli.Env) *cobra.Command {
	var servers selector.Flags
	q := &registryv1.UnsetHoldsRequest{}
	c := &cobra.Command{
		Use:   "unhold AGENT --on SELECTOR | --id HOLD",
		Short: "End the holds of an agent on servers, or one hold.",
		Long: `End the holds of an agent on servers, or one hold by its id. A hold ends as a whole: one that is
also about servers that are not selected is refused, and named.`,
		Example: "  garrison unhold beacon --on db-1\n  garrison unhold --id 1a2b3c4d",
		Args:    cli.AtMost("AGENT"), PreRunE: cli.Prints(env, display.Holds), SuggestFor: []string{"unpin", "unlock"},
		RunE: func(c *cobra.Command, a []string) (err error) {
			switch {
			case len(a) == 0 && q.Id == "":
				return cli.Usage("AGENT is missing. Try: garrison unhold AGENT --on SELECTOR, or garrison unhold " +
					"--id HOLD")
			case len(a) > 0 && q.Id != "":
				return cli.Usage("--id and the agent %s exclude each other", a[0])
			case len(a) > 0:
				q.Agent = a[0]
				if q.On, err = servers.Selector(); err != nil {
					return err
				}
			}
			r, err := cli.Call[*registryv1.UnsetHoldsResponse](c.Context(), env, q)
			if err != nil {
				return err
			}
			env.Say("%s ended", output.Plural(len(r.GetHolds()), "hold"))
			return output.Show(env.Output, display.Holds, r.GetHolds(), r.GetHolds())
		},
	}
	servers.Add(c)
	cli.TextVar(c.Flags(), &q.Id, "id", cli.IDPrefix("a hold"), "end this `HOLD`, by id or the beginning of it")
	return c
}
