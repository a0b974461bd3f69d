package env

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/keep"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/record"
)

const keepHelp = `Set how many servers of an environment must work at any moment.

A budget is N/FIELD or N%/FIELD: at least so many of the servers with each value of a label, such as 2/label.rack, or of
the whole environment, such as 90%/env; percentages are rounded up. A server works while it is online, no change is
under way on it, and its agents are healthy.

No task takes a working server away that a budget needs, whatever asks for the task: an intent, a rollout, a default or
a restart. It waits in the queue, and garrison task list shows why. All rollouts share the budget, also in the emergency
lane. A server that does not work costs nothing, so that it can be repaired. The budgets replace those that were set
before.`

func keepCommand(env *cli.Env, find find) *cobra.Command {
	var none bool
	var revision uint64
	c := &cobra.Command{
		Use:   "keep ENVIRONMENT N/FIELD… | ENVIRONMENT --none",
		Short: "Set how many servers of an environment must work at any moment.",
		Long:  keepHelp,
		Example: "  garrison env keep prod 2/label.rack 90%/env\n" +
			"  garrison env keep prod --none",
		PreRunE: cli.Prints(env, listing),
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) == 0 || none == (len(a) > 1) {
				return cli.Usage("want an environment and budgets, or --none. Try: garrison env keep --help")
			}
			var budgets []*rolloutv1.Keep
			for _, text := range a[1:] {
				k, err := cli.ReadKeep(text)
				if err != nil {
					return cli.Usage("%v", err)
				}
				budgets = append(budgets, k)
			}
			done := "keeps " + keepText(budgets) + " working"
			if none {
				done = "has no keep budget"
			}
			var kept environment
			err := edit(c.Context(), env, at(find, revision), a[0], done, func(e environment) {
				e.Keep = budgets
				kept = e
			})
			if err != nil {
				return err
			}
			notes, _ := Immovable(c.Context(), env, kept) // the budgets are recorded without them, too
			for _, text := range notes {
				env.Say("note: %s", text)
			}
			return nil
		},
	}
	record.RevisionFlag(c.Flags(), &revision)
	c.Flags().BoolVar(&none, "none", false, "remove the budgets")
	return c
}

// keepText returns keep budgets as they are read.
func keepText(budgets []*rolloutv1.Keep) string {
	var out []string
	for _, k := range budgets {
		out = append(out, strings.ReplaceAll(cli.LimitText(k.GetWorking()), " ", "")+"/"+k.GetField())
	}
	return strings.Join(out, ", ")
}

// groupsRead is how many values of a label are looked at.
const groupsRead = 1000

// groupsNamed is how many of them a note names.
const groupsNamed = 3

// Immovable returns which keep budgets of an environment need every server that there is, so that no working one may
// change: a sentence each.
func Immovable(ctx context.Context, env *cli.Env, e environment) (notes []string, err error) {
	for _, b := range e.GetKeep() {
		r, err := cli.Call[*registryv1.CountServersResponse](ctx, env, &registryv1.CountServersRequest{
			Filter: &registryv1.ListServersRequest{Environment: e.GetName(), Life: serverv1.Life_LIFE_ALIVE},
			By:     []string{b.GetField()}, Top: groupsRead,
		})
		if err != nil {
			return nil, err
		}
		if text := keepNote(e, b, r.GetCounts().GetGroups()); text != "" {
			notes = append(notes, text)
		}
	}
	return notes, nil
}

// keepNote returns which groups of servers are no larger than what a budget needs of them; "" when none is.
func keepNote(e *environmentv1.Environment, b *rolloutv1.Keep, groups []*registryv1.CountGroup) string {
	var tight []string
	for _, g := range groups {
		all := int(g.GetCount())
		if need := keep.Needed(b, all); keep.NeedsAll(need, all) {
			name := "environment " + e.GetName()
			if label, ok := strings.CutPrefix(b.GetField(), "label."); ok {
				name = label + "=" + slices.Concat(g.GetValues(), []string{""})[0]
			}
			tight = append(tight, fmt.Sprintf("%s has %s and needs %d", name, output.Plural(all, "server"), need))
		}
	}
	if len(tight) == 0 {
		return ""
	}
	named := strings.Join(tight[:min(len(tight), groupsNamed)], ", ")
	if more := len(tight) - groupsNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return named + ": no working server there can change while " + keepText([]*rolloutv1.Keep{b}) + " holds"
}
