package display

import (
	"cmp"
	"strings"

	"google.golang.org/protobuf/proto"

	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

// Hold is a hold as the registry returns it.
type Hold = *holdv1.Hold

// Holds lists holds.
var Holds = output.Listing[Hold]{
	Name: Hold.GetId,
	Columns: []output.Column[Hold]{
		{Title: "ID", Value: func(v output.View, h Hold) string { return output.ShortID(v, h.GetId()) }},
		output.Col("AGENT", Hold.GetAgent),
		output.Col("ON", holdOn),
		output.Col("SERVERS", func(h Hold) string { return output.Count(uint64(h.GetServers())) }).Numeric(),
		output.Col("BY", Hold.GetSetBy),
		output.Since("SINCE", Hold.GetSetAt),
		{Title: "UNTIL", Value: func(v output.View, h Hold) string {
			if h.GetUntil() == nil {
				return "unhold"
			}
			return output.Stamp(h.GetUntil())
		}},
		output.Col("REASON", Hold.GetReason),
	},
}

// holdOn returns where an agent is held, with the names of servers.
func holdOn(h Hold) string {
	on := proto.CloneOf(h.GetOn())
	for _, s := range append([]*intentv1.Selector{on}, on.GetNot()...) {
		for n, id := range s.GetServers() {
			s.Servers[n] = cmp.Or(h.GetServerNames()[id], id)
		}
	}
	return strings.TrimPrefix(selector.Args(on), "--on ")
}

// HoldText returns who holds an agent, until when and why.
func HoldText(h Hold) string {
	if h == nil {
		return ""
	}
	text := "held by " + h.GetSetBy()
	if h.GetUntil() != nil {
		text += " until " + output.Stamp(h.GetUntil())
	}
	return strings.TrimSuffix(text+": "+h.GetReason(), ": ")
}
