package restore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

func statusCommand(env *cli.Env) *cobra.Command {
	var on []string
	c := &cobra.Command{
		Use:     "restore [--on SELECTOR]",
		Example: "  garrison restore --on env=prod",
		Args:    cli.Exactly(),
		Short:   "Show what the ledger lost: servers ahead of it, unknown and offline servers, revocations.",
		Long: "Show three kinds of servers, and change nothing: servers that applied documents which the ledger " +
			"lacks, with what\n" +
			"accepting the loss does to each agent that differs; servers that beat and are unknown to the ledger, " +
			"as after a\n" +
			"lost enrolment; and servers that are alive in the ledger and offline, as after a lost\n" +
			"decommission. Messages name the revocations that may be lost, until garrison restore accept " +
			"--revocations.",
		RunE: func(c *cobra.Command, _ []string) error {
			servers, err := optionalSelector(on)
			if err != nil {
				return err
			}
			status, err := status(c.Context(), env, servers)
			if err != nil {
				return err
			}
			if err := show(env, status); err != nil {
				return err
			}
			if err := sayRestored(c.Context(), env); err != nil {
				return err
			}
			return sayUnheard(c.Context(), env, servers)
		},
	}
	c.Flags().StringArrayVar(&on, "on", nil, selector.Help+" (default all)")
	return c
}

// status returns what the ledger lost.
func status(ctx context.Context, env *cli.Env, on *intentv1.Selector) (restoreStatus, error) {
	return cli.All[restoreStatus](ctx, env, &registryv1.GetRestoreStatusRequest{On: on})
}

// heardWithin is the time in which each server that is online confirms what it runs several times.
const heardWithin = time.Minute

// sayUnheard prints how many servers count as online or late and have not confirmed what they run, as shortly after a
// start of the registry. They may be ahead of the ledger.
func sayUnheard(ctx context.Context, env *cli.Env, on *intentv1.Selector) error {
	unheard := 0
	for _, is := range []serverv1.Presence{serverv1.Presence_PRESENCE_ONLINE, serverv1.Presence_PRESENCE_LATE} {
		resp, err := cli.Call[*registryv1.CountServersResponse](ctx, env, &registryv1.CountServersRequest{
			Filter: &registryv1.ListServersRequest{
				On: on, Presence: is, UnconfirmedFor: durationpb.New(heardWithin),
			},
		})
		if err != nil {
			return err
		}
		unheard += int(resp.GetCounts().GetTotal())
	}
	if unheard > 0 {
		env.Say("possibly ahead too: %s without a report of what runs there in the last minute; ask again, or "+
			"garrison server list --unconfirmed 1m", listing.Plural(unheard, "server"))
	}
	return nil
}

// show prints what the ledger lost: in JSON and YAML the registry's response, in tables a row for each server and
// agent.
func show(env *cli.Env, status restoreStatus) error {
	if f := env.Output.Format; f == output.FormatJSON || f == output.FormatYAML {
		return env.Output.PrintDocument(f, status)
	}
	rows := lossRows(env, status.GetLosses())
	for _, u := range status.GetUnknown() {
		rows = append(rows, display.ExplainUnknown(u))
	}
	for _, o := range status.GetOffline() {
		row := display.ExplainServer(env.Output.View(), o)
		row.Next = "executor run on that machine; when it was decommissioned: garrison server decommission " +
			"" + o.GetName() + " --lost"
		rows = append(rows, row)
	}
	if len(status.GetLosses()) == 0 {
		env.Say("no connected server is ahead of the ledger, which ends at %d", status.GetLedgerEnd())
	}
	if n := status.GetOfflineMore(); n > 0 {
		env.Say("%s more are offline: garrison server list --presence offline", listing.Count(uint64(n)))
	}
	return output.Show(env.Output, display.Explanations, display.ExplanationList{Explained: rows}, rows)
}

// lossRows returns a row for each server that is ahead of the ledger and for each of its agents that differ.
func lossRows(env *cli.Env, losses []loss) (rows []display.Explanation) {
	for _, l := range losses {
		row := display.ExplainServer(env.Output.View(), l.GetServer())
		row.Is = fmt.Sprintf("%d of %d agents differ", len(l.GetAgents()), len(l.GetAgents())+int(l.GetSame()))
		row.Next = "garrison restore accept --on " + l.GetServer().GetName()
		rows = append(rows, row)
		for _, a := range l.GetAgents() {
			rows = append(rows, explainLoss(l, a))
		}
	}
	return rows
}

// explainLoss returns a row with what accepting does to one agent.
func explainLoss(l loss, a *registryv1.AgentLoss) display.Explanation {
	is := listing.Dash(a.GetFound().GetVersion()) + " → " + listing.Dash(a.GetWanted().GetVersion())
	row := display.Explanation{
		What: "agent", Name: l.GetServer().GetName() + "/" + a.GetAgent(), Is: is,
		State: cmp.Or(listing.Word(a.GetChange()), "stays"),
		Since: listing.Stamp(a.GetFoundSince()),
	}
	switch a.GetChange() {
	case registryv1.LossChange_LOSS_CHANGE_INSTALL:
		row.Reason = "accepting installs it"
	case registryv1.LossChange_LOSS_CHANGE_REPLACE:
		row.Reason = "accepting brings it to what the ledger wants"
	case registryv1.LossChange_LOSS_CHANGE_REMOVE:
		row.Reason = "accepting removes it, as an intent requested"
	default:
		row.Is = listing.Dash(a.GetFound().GetVersion())
		row.Reason = "unknown to the ledger; accepting does not change it"
		row.Next = "garrison install " + a.GetAgent() + " --on " + l.GetServer().GetName()
	}
	return row
}
