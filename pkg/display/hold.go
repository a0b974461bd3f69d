package display

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/selection"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// Hold is a hold as the registry returns it.
type Hold = *holdv1.Hold

// Holds lists holds.
var Holds = listing.Listing[Hold]{
	Name: func(h Hold) string { return cmp.Or(h.GetId(), holdOn(h)) },
	Columns: []listing.Column[Hold]{
		{Title: "ID", Value: func(v listing.View, h Hold) string { return listing.ShortID(v, h.GetId()) }},
		listing.Col("AGENT", func(h Hold) string { return cmp.Or(h.GetAgent(), "every agent") }),
		listing.Col("ON", holdOn),
		listing.Col("SERVERS", func(h Hold) string { return listing.Count(uint64(h.GetServers())) }).Numeric(),
		listing.Col("BY", Hold.GetSetBy),
		listing.Since("SINCE", Hold.GetSetAt),
		{Title: "UNTIL", Value: func(v listing.View, h Hold) string {
			if h.GetUntil() == nil {
				return "unhold"
			}
			return listing.Stamp(h.GetUntil())
		}},
		listing.Col("REASON", Hold.GetReason),
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
	return strings.TrimPrefix(selection.Args(on), "--on ")
}

// HoldText returns who holds an agent, until when and why.
func HoldText(h Hold) string {
	if h == nil {
		return ""
	}
	text := "held by " + h.GetSetBy()
	if h.GetUntil() != nil {
		text += " until " + listing.Stamp(h.GetUntil())
	}
	return strings.TrimSuffix(text+": "+h.GetReason(), ": ")
}

// Block is a block as the registry returns it.
type Block = *blockv1.Block

// Blocks lists blocks.
var Blocks = listing.Listing[Block]{
	Name: Block.GetId,
	Columns: []listing.Column[Block]{
		{Title: "ID", Value: func(v listing.View, b Block) string { return listing.ShortID(v, b.GetId()) }},
		listing.Col("AGENT", func(b Block) string { return b.GetBuild().GetAgent() }),
		listing.Col("BUILD", func(b Block) string {
			digest := hex.EncodeToString(b.GetBuild().GetConfigurationDigest())
			configuration := "configuration " + digest[:min(12, len(digest))]
			i := b.GetBuild().GetImage()
			switch {
			case i == nil:
				return configuration
			case digest != "":
				return i.GetVersion() + " with " + configuration
			}
			return i.GetVersion()
		}),
		listing.Col("PLATFORM", func(b Block) string { return b.GetBuild().GetPlatform() }),
		listing.Col("FAILED", func(b Block) string { return listing.Count(uint64(b.GetFailed())) }).Numeric(),
		listing.Col("BY", Block.GetSetBy),
		listing.Since("SINCE", Block.GetSetAt),
		listing.Col("REASON", Block.GetReason),
	},
}

// BuildText returns a build in words.
func BuildText(b *blockv1.Build) string { return block.Words(b) }

// BlockText returns that a build is blocked, by whom and why.
func BlockText(b Block) string {
	if b == nil {
		return ""
	}
	return block.Words(b.GetBuild()) + " is blocked by " + b.GetSetBy() + ": " + b.GetReason()
}

// PresenceHeld says why the registry calls no server offline, and until when.
func PresenceHeld(v listing.View, h *registryv1.PresenceHeld) string {
	return fmt.Sprintf("the registry hears no beats from %d %% of the servers (%d of %d), since %s ago: presence is "+
		"held, and they are offline %s; the network between them and the bus may be at fault, or the bus",
		100*h.GetSilent()/max(h.GetOf(), 1), h.GetSilent(), h.GetOf(), listing.Age(v, h.GetSince()),
		listing.Until(v, h.GetUntil()))
}
