package display

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/noun/block"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

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
		output.Col("AGENT", func(h Hold) string { return cmp.Or(h.GetAgent(), "every agent") }),
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

// Block is a block as the registry returns it.
type Block = *blockv1.Block

// Blocks lists blocks.
var Blocks = output.Listing[Block]{
	Name: Block.GetId,
	Columns: []output.Column[Block]{
		{Title: "ID", Value: func(v output.View, b Block) string { return output.ShortID(v, b.GetId()) }},
		output.Col("AGENT", func(b Block) string { return b.GetBuild().GetAgent() }),
		output.Col("BUILD", func(b Block) string {
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
		output.Col("PLATFORM", func(b Block) string { return b.GetBuild().GetPlatform() }),
		output.Col("FAILED", func(b Block) string { return output.Count(uint64(b.GetFailed())) }).Numeric(),
		output.Col("BY", Block.GetSetBy),
		output.Since("SINCE", Block.GetSetAt),
		output.Col("REASON", Block.GetReason),
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
func PresenceHeld(v output.View, h *registryv1.PresenceHeld) string {
	return fmt.Sprintf("the registry hears no beats from %d %% of the servers (%d of %d), since %s ago: presence is "+
		"held, and they are offline %s; the network between them and the bus may be at fault, or the bus",
		100*h.GetSilent()/max(h.GetOf(), 1), h.GetSilent(), h.GetOf(), output.Age(v, h.GetSince()),
		output.Until(v, h.GetUntil()))
}
