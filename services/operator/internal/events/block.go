package events

import (
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
)

// blockDetail summarizes a fact about a block.
func blockDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *blockv1.Block:
		return block.Words(b.GetBuild()) + ": " + b.GetReason()
	case *blockv1.Lifted:
		return b.GetReason()
	}
	return ""
}
