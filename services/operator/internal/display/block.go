package display

import (
	"encoding/hex"

	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/block"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

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
