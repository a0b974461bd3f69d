package display

import (
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// offlineNamed is the number of offline servers that the notes of a plan name.
const offlineNamed = 3

// PlanNotes returns what a person should know of a plan besides its servers and reasons: images outside the channel of
// their servers, and servers that change later because they are offline.
func PlanNotes(p *intentv1.Plan) (notes []string) {
	if p.GetRefusal() != nil {
		return nil
	}
	for _, c := range p.GetChosen() {
		if channel := c.GetOutsideChannel(); channel != "" {
			notes = append(notes, fmt.Sprintf("note: %s@%s for %s is not in channel %s, from which its servers install",
				p.GetAgent(), c.GetImage().GetVersion(), Platform(c.GetPlatform()), channel))
		}
	}
	if len(p.GetOfflineServers()) > 0 {
		notes = append(notes, offlineText(p))
	}
	return notes
}

// offlineText names servers of a plan that are offline, and says when they change.
func offlineText(p *intentv1.Plan) string {
	names := p.GetOfflineServers()
	is := fmt.Sprintf("%d servers are offline: they change when they come back", p.GetOffline())
	if p.GetOffline() == 1 {
		is = "1 server is offline: it changes when it comes back"
	}
	shown := names[:min(offlineNamed, len(names))]
	text := is + " (" + strings.Join(shown, ", ")
	if more := int(p.GetOffline()) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ")"
}

// RolloutNotes returns what the plan of a rollout shares with other rollouts, the keep budgets that hold part of it
// back, and fields of its strategy that none of its servers has.
func RolloutNotes(p *registryv1.PlanRolloutResponse) (notes []string) {
	for _, o := range p.GetBeside() {
		notes = append(notes, fmt.Sprintf("beside it: rollout %s (%s), with %s left, %d of them in this plan too",
			ident.Handle(o.GetRolloutId()), o.GetTitle(), listing.Plural(int(o.GetLeft()), "server"), o.GetServers()))
	}
	for _, b := range p.GetBudgets() {
		notes = append(notes, TightBudget(b))
	}
	for _, field := range p.GetUnlabelled() {
		notes = append(notes, "note: none of these servers has "+field)
	}
	return notes
}
