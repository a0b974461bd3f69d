package display

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/listing"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// ExplainAgent returns the row of an agent: on how many servers it is wanted or found.
func ExplainAgent(a *agentv1.Agent, counts *registryv1.Counts) Explanation {
	row := Explanation{
		What: "agent", Name: a.GetName(), Is: listing.Word(a.GetKind()), Since: listing.Stamp(a.GetCreatedAt()),
		State: "on " + listing.Plural(int(counts.GetTotal()), "server"), Next: "garrison instance list " + a.GetName(),
	}
	if counts.GetTotal() == 0 {
		row.Next = "garrison install " + a.GetName() + " --on SELECTOR"
	}
	return row
}

// ExplainVersions returns a row for each version of an agent, the most frequent first.
func ExplainVersions(agent string, counts *registryv1.Counts) (rows []Explanation) {
	for _, g := range counts.GetGroups() {
		version := strings.Join(g.GetValues(), " ")
		row := Explanation{
			What: "version", Name: version, State: "on " + listing.Plural(int(g.GetCount()), "server"),
		}
		if version == "" {
			row.Name, row.Is, row.Next = agent, "not there yet", "garrison instance list "+agent+" --not-at-wanted"
		}
		rows = append(rows, row)
	}
	if n := counts.GetOtherGroups(); n > 0 {
		rows = append(rows, Explanation{
			What: "version", Is: fmt.Sprintf("and %d more", n),
			Next: "garrison instance list " + agent + " --count-by version",
		})
	}
	return rows
}

// ExplainAgentDefault returns the row of a default of an agent: where it installs which image, and what became of it.
func ExplainAgentDefault(d Default) Explanation {
	row := Explanation{
		What: "default", Name: d.GetEnvironment(),
		Is:    ChoiceText(d.GetAgent(), d.GetDefault().GetImage()) + " for " + ReachText(d.GetDefault().GetReach()),
		State: strings.Join(defaultCounts(d, false), ", "), Since: listing.Stamp(d.GetDefault().GetSetAt()),
	}
	if reasons := d.GetReasons(); len(reasons) > 0 {
		row.Reason = Reason(reasons[0].GetFirst())
	}
	return row
}

// ExplainHold returns the row of a hold on an agent.
func ExplainHold(agent string, h Hold) Explanation {
	return Explanation{
		What: "held", Name: agent, Is: holdOn(h), State: "by " + h.GetSetBy(), Since: listing.Stamp(h.GetSetAt()),
		Next: "garrison hold list " + agent, Reason: h.GetReason(),
	}
}

// ExplainBlock returns the row of a build of an agent that is blocked.
func ExplainBlock(b Block) Explanation {
	return Explanation{
		What: "blocked", Name: BuildText(b.GetBuild()), State: "by " + b.GetSetBy(), Since: listing.Stamp(b.GetSetAt()),
		Next: "garrison block list " + b.GetBuild().GetAgent(), Reason: b.GetReason(),
	}
}

// ExplainCauses returns a row for each cause why servers differ in an agent, with an example of each.
func ExplainCauses(agent string, r *registryv1.CheckFleetResponse) (rows []Explanation) {
	for _, c := range r.GetCauses() {
		row := Explanation{
			What: "differs", Name: agent, State: c.GetCause(), Next: "garrison check --agent " + agent,
			Is: "on " + listing.Plural(int(c.GetCount()), "server"),
		}
		of := slices.DeleteFunc(slices.Clone(r.GetDifferences()), func(d Difference) bool {
			return d.GetCause() != c.GetCause()
		})
		slices.SortFunc(of, func(a, b Difference) int { return cmp.Compare(a.GetServerName(), b.GetServerName()) })
		if len(of) > 0 {
			row.Is += ", such as " + of[0].GetServerName()
			row.Since, row.Reason = listing.Stamp(of[0].GetSince()), of[0].GetReason()
			if c.GetCount() == 1 {
				row.Next = of[0].GetCure()
			}
		}
		rows = append(rows, row)
	}
	return rows
}
