package overview

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/listing"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// groupsRead is how many values of a label are looked at.
const groupsRead = 1000

// groupsNamed is how many of them a note names.
const groupsNamed = 3

// Immovable returns which keep budgets of an environment need every server that there is, so that no working one may
// change: a sentence each.
func Immovable(ctx context.Context, c *client.Client, e *environmentv1.Environment) (notes []string, err error) {
	for _, b := range e.GetKeep() {
		r, err := client.Call[*registryv1.CountServersResponse](ctx, c, &registryv1.CountServersRequest{
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
			tight = append(tight, fmt.Sprintf("%s has %s and needs %d", name, listing.Plural(all, "server"), need))
		}
	}
	if len(tight) == 0 {
		return ""
	}
	named := strings.Join(tight[:min(len(tight), groupsNamed)], ", ")
	if more := len(tight) - groupsNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return named + ": no working server there can change while " + display.KeepText([]*rolloutv1.Keep{b}) + " holds"
}
