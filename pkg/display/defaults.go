package display

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/listing"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// Default is a default of an environment with what became of it.
type Default = *registryv1.DefaultRow

// settings are the columns of what a default says.
var settings = []listing.Column[Default]{
	listing.Col("ENVIRONMENT", Default.GetEnvironment),
	listing.Col("DEFAULT", func(d Default) string { return ChoiceText(d.GetAgent(), d.GetDefault().GetImage()) }),
	listing.Col("FOR", func(d Default) string { return ReachText(d.GetDefault().GetReach()) }),
	listing.Col("BY", func(d Default) string { return d.GetDefault().GetActor() }),
	listing.Since("SINCE", func(d Default) *timestamppb.Timestamp { return d.GetDefault().GetSetAt() }),
	listing.Col("METADATA", func(d Default) string { return listing.Pairs(d.GetDefault().GetMetadata()) }),
}

// DefaultSettings lists what defaults say.
var DefaultSettings = listing.Listing[Default]{Name: defaultName, Columns: settings}

// Defaults lists defaults and on how many servers they are in which state.
var Defaults = listing.Listing[Default]{
	Name: defaultName,
	Columns: append(append([]listing.Column[Default]{}, settings...),
		defaultCount("PRESENT", registryv1.DefaultState_DEFAULT_STATE_PRESENT),
		defaultCount("DUE", registryv1.DefaultState_DEFAULT_STATE_DUE),
		defaultCount("WAITING", registryv1.DefaultState_DEFAULT_STATE_WAITING),
		defaultCount("REMOVED", registryv1.DefaultState_DEFAULT_STATE_REMOVED),
		defaultCount("BEYOND", registryv1.DefaultState_DEFAULT_STATE_BEYOND),
		listing.Col("REASON", func(d Default) string {
			if len(d.GetReasons()) == 0 {
				return ""
			}
			return Reason(d.GetReasons()[0].GetFirst())
		}),
		listing.Wide("REVISION", func(d Default) string {
			return listing.Count(d.GetDefault().GetRevision())
		}).Numeric(),
	),
}

func defaultName(d Default) string { return d.GetEnvironment() + "/" + d.GetAgent() }

func defaultCount(title string, state registryv1.DefaultState) listing.Column[Default] {
	return listing.Col(title, func(d Default) string { return fmt.Sprint(d.GetServers()[uint32(state)]) }).Numeric()
}

// ReachText returns which servers a default installs on.
func ReachText(r environmentv1.Reach) string {
	switch r {
	case environmentv1.Reach_REACH_NEW:
		return "new servers"
	case environmentv1.Reach_REACH_ALL:
		return "all servers"
	}
	return ""
}

// DefaultLines describes a default, on how many servers it is in which state, and why servers wait.
func DefaultLines(d Default) []string {
	set := d.GetDefault()
	first := fmt.Sprintf("%s for %s, set by %s at %s", ChoiceText(d.GetAgent(), set.GetImage()),
		ReachText(set.GetReach()), set.GetActor(), listing.Stamp(set.GetSetAt()))
	if m := set.GetMetadata(); len(m) > 0 {
		first += ", with " + listing.Pairs(m)
	}
	counts := "servers: " + strings.Join(defaultCounts(d, true), ", ")
	return append([]string{first, counts}, ReasonLines(d.GetReasons())...)
}

// defaultCounts returns on how many servers a default is in which state; with also, states without servers too.
func defaultCounts(d Default, also bool) (counts []string) {
	for state := registryv1.DefaultState_DEFAULT_STATE_PRESENT; ; state++ {
		if _, ok := registryv1.DefaultState_name[int32(state)]; !ok {
			return counts
		}
		if n := d.GetServers()[uint32(state)]; n > 0 || also {
			counts = append(counts, fmt.Sprintf("%d %s", n, listing.Word(state)))
		}
	}
}

// ExplainDefault returns the row of a default on a server, and reports whether there is something to explain: an agent
// that is present has a row of its own.
func ExplainDefault(s Server, d Default) (row Explanation, missing bool) {
	for n := range d.GetServers() {
		state := registryv1.DefaultState(n)
		if state == registryv1.DefaultState_DEFAULT_STATE_PRESENT {
			continue
		}
		set := d.GetDefault()
		row = Explanation{
			What: "default", Name: d.GetAgent(), State: listing.Word(state), Since: listing.Stamp(set.GetSetAt()),
			Next: defaultNext(s, d, state), Reason: defaultReason(d, state),
			Is: ChoiceText(d.GetAgent(), set.GetImage()) + " by " + set.GetActor() + " in " + d.GetEnvironment(),
		}
		return row, true
	}
	return row, false
}

func defaultNext(s Server, d Default, state registryv1.DefaultState) string {
	switch state {
	case registryv1.DefaultState_DEFAULT_STATE_DUE:
		return "is installed within seconds"
	case registryv1.DefaultState_DEFAULT_STATE_WAITING:
		return "is installed as soon as it can be"
	}
	return "garrison install " + ChoiceText(d.GetAgent(), d.GetDefault().GetImage()) + " --on " + s.GetName()
}

func defaultReason(d Default, state registryv1.DefaultState) string {
	switch state {
	case registryv1.DefaultState_DEFAULT_STATE_REMOVED:
		return "the agent was removed after the default applied"
	case registryv1.DefaultState_DEFAULT_STATE_BEYOND:
		return "the default is for servers that joined after it was set"
	case registryv1.DefaultState_DEFAULT_STATE_WAITING:
		for _, r := range d.GetReasons() {
			return Reason(r.GetFirst())
		}
	}
	return ""
}

// RuleLabelLines returns the labels that a server has by rules, each with its rule.
func RuleLabelLines(s Server) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(s.GetRuleLabels())) {
		l := s.GetRuleLabels()[k]
		out = append(out, k+"="+l.GetValue()+" (rule "+l.GetRule()+")")
	}
	return strings.Join(out, "\n")
}
