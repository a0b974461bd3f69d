package block

import (
	"testing"

	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

func TestWhatIsBlockedAlreadyIsSaidToBe(t *testing.T) {
	t.Parallel()
	two := []*blockv1.Block{{}, {}}
	for already, want := range []string{
		"2 builds of web blocked",
		"1 build of web blocked; 1 build of web blocked before, for the reason given then",
		"nothing changed; 2 builds of web blocked before, for the reason given then",
	} {
		r := &registryv1.AddBlocksResponse{Blocks: two, Already: uint32(already)}
		if have := addedText(r, "web"); have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}
