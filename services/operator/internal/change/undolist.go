package change

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

type row = *registryv1.InstanceRow

// ways lists how far each agent can go back, and what that costs on its server.
var ways = listing.Listing[row]{
	Name:  func(r row) string { return r.GetServerName() + "/" + r.GetInstance().GetAgent() },
	Order: "server",
	Columns: []listing.Column[row]{
		listing.Col("SERVER", row.GetServerName),
		listing.Col("AGENT", func(r row) string { return r.GetInstance().GetAgent() }),
		listing.Col("NOW", func(r row) string { return r.GetInstance().GetObserved().GetVersion() }),
		listing.Col("BACK-TO", backTo),
		listing.Col("FROM", fromWhere),
		listing.Col("UNTIL", until),
		listing.Col("DISK", func(r row) string { return diskText(r.GetInstance()) }),
		{Title: "INTENT", Value: func(v listing.View, r row) string {
			return listing.ShortID(v, r.GetInstance().GetIntentId())
		}},
		listing.Wide("KEPT", func(r row) string {
			var all []string
			for _, k := range r.GetInstance().GetKept() {
				all = append(all, k.GetImage().GetVersion())
			}
			return strings.Join(all, ",")
		}),
	},
}

// backTo returns the version to which an undo of the last intent goes back.
func backTo(r row) string {
	switch i := r.GetInstance(); {
	case i.GetBefore() == nil:
		return "unknown"
	case i.Before.Image == nil:
		return "removed"
	default:
		return i.Before.Image.Version
	}
}

// kept returns the kept version to which an undo goes back, or nil.
func kept(i *instancev1.Instance) *imagev1.Kept {
	for _, k := range i.GetKept() {
		if i.GetBefore().GetImage() != nil && instance.SameImage(k.Image, i.Before.Image) {
			return k
		}
	}
	return nil
}

// fromWhere returns where the files of the version come from.
func fromWhere(r row) string {
	switch i := r.GetInstance(); {
	case i.GetBefore().GetImage() == nil:
		return ""
	case kept(i) != nil:
		return "its disk"
	case sameFiles(i.Before.Image, i.Observed):
		return "runs"
	}
	return "image-catalog"
}

// sameFiles reports whether two images have the same content, so that the way from one to the other fetches nothing.
func sameFiles(a, b *imagev1.Ref) bool {
	return instance.SameImage(a, b) || len(a.GetDigest()) > 0 && bytes.Equal(a.GetDigest(), b.GetDigest())
}

// until returns how long the files of the version stay on the server.
func until(r row) string {
	switch k := kept(r.GetInstance()); {
	case k == nil:
		return ""
	case k.GetChangesLeft() == 1:
		return "next change"
	default:
		return fmt.Sprintf("%d changes", k.GetChangesLeft())
	}
}

func diskText(i *instancev1.Instance) string {
	if len(i.GetKept()) == 0 {
		return ""
	}
	return listing.Size(disk(i))
}

// disk returns what the kept versions of an agent take.
func disk(i *instancev1.Instance) (bytes uint64) {
	for _, k := range i.GetKept() {
		bytes += k.GetBytes()
	}
	return bytes
}

// addWays adds --list and --purge to the command undo, whose flags are w.
func addWays(env *cli.Env, c *cobra.Command, w *work.Flags) *cobra.Command {
	var list, purges bool
	var agent string
	args, undo := c.Args, c.RunE
	c.Use = "undo [INTENT | ROLLOUT] | --list [--on SELECTOR] | --purge --on SELECTOR"
	c.Long += `

With --list nothing changes: each agent is shown with the version to which an undo of its last intent goes back,
where the files of that version come from, and what the kept versions take on the server's disk.

With --purge the servers delete the versions that they keep for a way back, by a task for each server. What runs is not
touched, and garrison undo still goes back: the image-catalog brings the version again, so that it takes longer and
needs the bus. An executor that replaced itself loses the version that would run in its place. Servers on which a
rollout has not ended, an agent is held, or whose environment is closed, are left out and named.`
	c.Example += "\n  garrison undo --list --on env=prod\n  garrison undo --purge --on env=prod --dry-run"
	w.Servers.Add(c)
	c.Flags().BoolVar(&list, "list", false, "list how far agents can go back, and what that costs; change nothing")
	c.Flags().BoolVar(&purges, "purge", false, "free the disk of the versions that servers keep for a way back")
	c.MarkFlagsMutuallyExclusive("list", "purge")
	cli.TextVar(c.Flags(), &agent, "agent", cli.Name("agent"), "with --list: only this `AGENT`")
	c.Args = func(c *cobra.Command, a []string) error {
		if list || purges {
			return cli.Exactly()(c, a)
		}
		return args(c, a)
	}
	c.RunE = func(c *cobra.Command, a []string) error {
		chosen := c.Flags().Changed("on") || c.Flags().Changed("not") || agent != ""
		switch {
		case purges && agent != "":
			return cli.Usage("--agent requires --list: --purge is of every agent on the servers")
		case list:
			return listWays(c.Context(), env, w.Servers, agent)
		case purges:
			return purge(c.Context(), env, *w)
		case chosen:
			return cli.Usage("--on, --not and --agent require --list or --purge: an undo is of all servers of a change")
		}
		return undo(c, a)
	}
	return c
}

// listWays prints how far the agents on the selected servers can go back.
func listWays(ctx context.Context, env *cli.Env, servers selector.Flags, agent string) error {
	on, err := servers.Filter()
	if err != nil {
		return err
	}
	whole, err := agentsOn(ctx, env, cli.PageFlags{}, on, agent)
	if err != nil {
		return err
	}
	if err := output.Show(env.Output, ways, whole, whole.GetInstances()); err != nil {
		return err
	}
	if text := keptText(whole.GetInstances()); text != "" {
		env.Say("%s; to free it: garrison undo --purge --on SELECTOR", text)
	}
	return nil
}

// keptText returns what agents keep for a way back; "" for nothing.
func keptText(rows []row) string {
	sum, versions, with := uint64(0), 0, map[string]bool{}
	for _, r := range rows {
		if n := len(r.GetInstance().GetKept()); n > 0 {
			sum, versions = sum+disk(r.GetInstance()), versions+n
			with[r.GetInstance().GetServerId()] = true
		}
	}
	if versions == 0 {
		return ""
	}
	return fmt.Sprintf("kept for a way back: %s of %s on %s", listing.Plural(versions, "version"), listing.Size(sum),
		listing.Plural(len(with), "server"))
}

// agentsOn returns the agents on the selected servers, or one of them.
func agentsOn(ctx context.Context, env *cli.Env, page cli.PageFlags, on *intentv1.Selector, agent string) (
	*registryv1.ListInstancesResponse, error,
) {
	q := &registryv1.ListInstancesRequest{On: on, Agent: agent}
	return cli.Collect(ctx, page, cli.Ask[*registryv1.ListInstancesResponse](env, q))
}

// mostCounted is how many agents are looked at, before a purge, for what they keep: a large fleet has a million.
const mostCounted = 10_000

// sayKept prints what the agents on the selected servers keep for a way back.
func sayKept(ctx context.Context, env *cli.Env, on *intentv1.Selector) error {
	some, err := agentsOn(ctx, env, cli.PageFlags{Limit: mostCounted}, on, "")
	if err != nil {
		return err
	}
	text := keptText(some.GetInstances())
	switch {
	case some.GetNextCursor() != "":
		env.Say("%s (only the first %d agents were counted); to list all: garrison undo --list with the same selector",
			cmp.Or(text, "nothing is kept for a way back"), mostCounted)
	case text != "":
		env.Say("%s; to list them: garrison undo --list with the same selector", text)
	}
	return nil
}

// purge deletes what the selected servers keep for a way back, by a task for each server.
func purge(ctx context.Context, env *cli.Env, w work.Flags) error {
	on, err := w.Selector()
	if err != nil {
		return err
	}
	if err := sayKept(ctx, env, on); err != nil {
		return err
	}
	q := &intentv1.Refresh{On: on, PurgeKept: true}
	ask := &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: q}}
	return work.Propose(ctx, env, w, work.Proposal{
		Verb: topology.VerbRefresh, Question: "Delete the versions kept for a way back", Asks: asked(ask),
	})
}
