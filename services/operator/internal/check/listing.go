package check

import (
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

type difference = *registryv1.Difference

// listing lists differences.
var listing = output.Listing[difference]{
	Name: func(d difference) string { return d.GetServerName() + "/" + d.GetAgent() + "/" + d.GetCause() },
	Columns: []output.Column[difference]{
		output.Col("SERVER", difference.GetServerName),
		output.Col("AGENT", difference.GetAgent),
		output.Col("WANTED", difference.GetWanted),
		output.Col("OBSERVED", difference.GetObserved),
		output.Col("CAUSE", difference.GetCause),
		output.Since("SINCE", difference.GetSince),
		output.Col("CURE", difference.GetCure),
		output.Col("REASON", difference.GetReason),
		output.Wide("ENV", difference.GetEnvironment),
		output.Wide("REMEDY", func(d difference) string { return output.Word(d.GetRemedy()) }),
		output.Wide("CONFIRMED", func(d difference) string { return output.Stamp(d.GetConfirmedAt()) }),
		output.Wide("SERVER-ID", difference.GetServerId),
		output.Wide("IMAGE", func(d difference) string { return d.GetImage().GetId() }),
	},
}

// count is how many differences a cause has.
type count struct {
	Cause string `json:"cause"`
	Count uint32 `json:"count"`
}

// countList is the document that holds counts.
type countList struct {
	Servers uint32  `json:"servers"`
	Agents  uint32  `json:"agents"`
	Causes  []count `json:"causes"`
}

// counts lists how many differences each cause has.
var counts = output.Listing[count]{
	Name: func(c count) string { return c.Cause },
	Columns: []output.Column[count]{
		output.Col("CAUSE", func(c count) string { return c.Cause }),
		output.Col("COUNT", func(c count) string { return output.Count(c.Count) }).Numeric(),
	},
}

func countsOf(r *registryv1.CheckFleetResponse) []count {
	out := []count{}
	for _, c := range r.GetCauses() {
		out = append(out, count{c.GetCause(), c.GetCount()})
	}
	return out
}
