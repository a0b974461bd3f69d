package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

type (
	loss          = *registryv1.ServerLoss
	restoreStatus = *registryv1.GetRestoreStatusResponse
)

// acceptedAtOnce is how many losses one request names.
const acceptedAtOnce = 500

func (s *session) restoreCommands() *cobra.Command {
	return group("restore", "After a backup of the control plane was restored",
		s.restoreStatusCommand(), s.restoreAcceptCommand())
}

func (s *session) restoreStatusCommand() *cobra.Command {
	var on []string
	c := &cobra.Command{
		Use: "status", Args: exactly(),
		Short: "Show what the ledger lost: servers that are ahead of it, unknown ones, and ones that are offline",
		Long: "Show the servers that applied documents that the ledger does not have, and for each agent that differs\n" +
			"what accepting the loss would do to it; who beats and is unknown to the ledger, as after an enrolment\n" +
			"that was lost; and the servers that the ledger believes alive and that are offline, as after a\n" +
			"decommission that was lost. Changes nothing.",
		RunE: func(c *cobra.Command, _ []string) error {
			selector, err := optionalSelector(on)
			if err != nil {
				return err
			}
			status, err := s.restoreStatus(c.Context(), selector)
			if err != nil {
				return err
			}
			return s.showRestore(status)
		},
	}
	c.Flags().StringArrayVar(&on, "on", nil, selectorHelp+"; without it all")
	return c
}

// optionalSelector reads the values of --on; without any every server is meant.
func optionalSelector(on []string) (*intentv1.Selector, error) {
	if len(on) == 0 {
		return nil, nil
	}
	return parseSelector(on)
}

// restoreStatus asks what the ledger lost.
func (s *session) restoreStatus(ctx context.Context, on *intentv1.Selector) (restoreStatus, error) {
	return collect(ctx, pageFlags{}, func(ctx context.Context, p *apiv1.Page) (restoreStatus, error) {
		return call[restoreStatus](ctx, s, "GetRestoreStatus", &registryv1.GetRestoreStatusRequest{Page: p, On: on})
	})
}

// showRestore prints what the ledger lost. Documents have the registry's answer, tables a row for each thing.
func (s *session) showRestore(status restoreStatus) error {
	if f := s.output.format; f == formatJSON || f == formatYAML {
		return printDocument(s.out, f, status)
	}
	rows := s.lossRows(status.GetLosses())
	for _, u := range status.GetUnknown() {
		rows = append(rows, whyUnknown(s.view(), u))
	}
	for _, o := range status.GetOffline() {
		row := whyServer(s.view(), o)
		row.Next = "executor run there; when it was decommissioned: garrison server decommission " + o.GetName() + " --lost"
		rows = append(rows, row)
	}
	if len(status.GetLosses()) == 0 {
		s.say("no server that was heard is ahead of the ledger, which ends at %d", status.GetLedgerEnd())
	}
	if n := status.GetOfflineMore(); n > 0 {
		s.say("%s more are offline: garrison server list --presence offline", count(uint64(n)))
	}
	return show(s, whyListing, whyList{rows}, rows)
}

// lossRows returns a row for each server that is ahead, with its agents that differ.
func (s *session) lossRows(losses []loss) (rows []why) {
	for _, l := range losses {
		row := whyServer(s.view(), l.GetServer())
		row.Is = fmt.Sprintf("%d of %d agents differ", len(l.GetAgents()), len(l.GetAgents())+int(l.GetSame()))
		row.Next = "garrison restore accept --on " + l.GetServer().GetName()
		rows = append(rows, row)
		for _, a := range l.GetAgents() {
			rows = append(rows, s.whyLoss(l, a))
		}
	}
	return rows
}

// whyLoss says what accepting does to one agent.
func (s *session) whyLoss(l loss, a *registryv1.AgentLoss) why {
	is := dash(a.GetFound().GetVersion()) + " → " + dash(a.GetWanted().GetVersion())
	row := why{
		What: "agent", Name: l.GetServer().GetName() + "/" + a.GetAgent(), Is: is,
		State: cmp.Or(word(a.GetChange()), "stays"),
		Since: stamp(a.GetFoundSince()), age: age(s.view(), a.GetFoundSince()),
	}
	switch a.GetChange() {
	case registryv1.LossChange_LOSS_CHANGE_INSTALL:
		row.Reason = "accepting installs it"
	case registryv1.LossChange_LOSS_CHANGE_REPLACE:
		row.Reason = "accepting brings it to what the ledger wants"
	case registryv1.LossChange_LOSS_CHANGE_REMOVE:
		row.Reason = "accepting removes it, as an intent asked for"
	default:
		row.Is = dash(a.GetFound().GetVersion())
		row.Reason = "the ledger does not know it; accepting leaves it as it is"
		row.Next = "garrison install " + a.GetAgent() + " --on " + l.GetServer().GetName()
	}
	return row
}

func (s *session) restoreAcceptCommand() *cobra.Command {
	var w workFlags
	c := &cobra.Command{
		Use: "accept", Args: exactly(),
		Short: "Accept that the ledger lost part of the history of servers, so that they follow it again",
		Long: "Show what accepting would do to each server that is ahead of the ledger, ask, and raise its epoch: it then\n" +
			"takes its document again, and brings its agents to what the ledger wants. There is no way back to what was lost.",
		Example: "  garrison restore accept --on web-1 --dry-run\n  garrison restore accept --on all --yes",
		RunE: func(c *cobra.Command, _ []string) error {
			on, err := w.servers.selector()
			if err != nil {
				return err
			}
			return s.acceptRestore(c.Context(), w, on)
		},
	}
	w.servers.add(c)
	c.Flags().BoolVar(&w.dryRun, "dry-run", false, "show what would be done, and change nothing")
	w.addYes(c)
	return c
}

func (s *session) acceptRestore(ctx context.Context, w workFlags, on *intentv1.Selector) error {
	if err := prints(s, serverListing)(nil, nil); err != nil && !w.dryRun {
		return err
	}
	status, err := s.restoreStatus(ctx, on)
	if err != nil {
		return err
	}
	losses := status.GetLosses()
	if len(losses) == 0 {
		meant := strings.TrimPrefix(selectorArgs(on), "--on ")
		return refuse(fault.NotFound, &apiv1.Refusal{
			Code: "NOT_AHEAD", Try: "garrison restore status",
			Message: fmt.Sprintf("no server of %s is ahead of the ledger, which ends at %d", meant, status.GetLedgerEnd()),
		})
	}
	rows := s.lossRows(losses)
	s.say("%s: what the ledger lost stays lost, and %s", plural(len(losses), "server"), changesText(losses))
	if w.dryRun {
		return show(s, whyListing, whyList{rows}, rows)
	}
	if err := printTable(s.err, s.view(), whyListing.columns, rows[:min(len(rows), planRows)], true); err != nil {
		return err
	}
	if n := len(rows) - planRows; n > 0 {
		s.say("… and %d more rows: --dry-run shows all", n)
	}
	if err := s.confirm(ctx, w, "Accept?"); err != nil {
		return err
	}
	return s.sendAccepted(ctx, losses)
}

// changesText counts what accepting does to agents.
func changesText(losses []loss) string {
	var n [4]int
	for _, l := range losses {
		for _, a := range l.GetAgents() {
			n[a.GetChange()]++
		}
	}
	return fmt.Sprintf("%s would be replaced, %d installed, %d removed; %d that the ledger does not know stay",
		plural(n[2], "agent"), n[1], n[3], n[0])
}

// sendAccepted accepts losses, in parts of a bounded size.
func (s *session) sendAccepted(ctx context.Context, losses []loss) error {
	whole := &registryv1.AcceptRestoreResponse{}
	for part := range slices.Chunk(losses, acceptedAtOnce) {
		q := &registryv1.AcceptRestoreRequest{}
		for _, l := range part {
			lost := l.GetServer()
			q.Losses = append(q.Losses, &registryv1.AcceptedLoss{ServerId: lost.GetId(), Place: lost.GetAhead().GetPlace()})
		}
		r, err := call[*registryv1.AcceptRestoreResponse](ctx, s, "AcceptRestore", q)
		if err != nil {
			if n := len(whole.GetServers()); n > 0 {
				s.say("%s were accepted before this; garrison restore status shows the rest", plural(n, "loss"))
				return exit{code: exitPartly, err: err}
			}
			return err
		}
		whole.Servers = append(whole.Servers, r.GetServers()...)
	}
	n := len(whole.GetServers())
	s.say("%s accepted; to follow: garrison restore status, garrison instance list", plural(n, "server"))
	return show(s, serverListing, whole, whole.GetServers())
}
