package display

import (
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/listing"
)

// Difference is one way in which what is there differs from what is wanted.
type Difference = *registryv1.Difference

// Differences lists differences.
var Differences = listing.Listing[Difference]{
	Name:  func(d Difference) string { return d.GetServerName() + "/" + d.GetAgent() + "/" + d.GetCause() },
	Order: "server",
	Columns: []listing.Column[Difference]{
		listing.Col("SERVER", Difference.GetServerName),
		listing.Col("AGENT", Difference.GetAgent),
		listing.Col("CAUSE", Difference.GetCause),
		listing.Col("WANTED", Difference.GetWanted),
		listing.Col("OBSERVED", Difference.GetObserved),
		listing.Since("SINCE", Difference.GetSince),
		listing.Col("REASON", Difference.GetReason),
		listing.Col("CURE", Difference.GetCure),
		listing.Wide("ENV", Difference.GetEnvironment),
		listing.Wide("REMEDY", func(d Difference) string { return listing.Word(d.GetRemedy()) }),
		listing.Wide("CONFIRMED", func(d Difference) string { return listing.Stamp(d.GetConfirmedAt()) }),
		listing.Wide("SERVER-ID", Difference.GetServerId),
		listing.Wide("IMAGE", func(d Difference) string { return d.GetImage().GetId() }),
	},
}
