package change

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func TestATargetIsAVersionAnImageOrAChannel(t *testing.T) {
	const id = "65d947de-86d0-58e2-bb0a-b7dc3d59300f"
	for text, want := range map[string]*intentv1.ImageChoice{
		"beacon":              nil,
		"beacon@1.2.3":        {By: &intentv1.ImageChoice_Version{Version: "1.2.3"}},
		"beacon@1.2.3-rc.1+b": {By: &intentv1.ImageChoice_Version{Version: "1.2.3-rc.1+b"}},
		"beacon@" + id:        {By: &intentv1.ImageChoice_ImageId{ImageId: id}},
		"beacon@dev":          {By: &intentv1.ImageChoice_Channel{Channel: "dev"}},
	} {
		got, err := parseTarget(text)
		if err != nil || got.agent != "beacon" {
			t.Errorf("%s: have agent %q and %v", text, got.agent, err)
		}
		if d := cmp.Diff(want, got.image, protocmp.Transform()); d != "" {
			t.Errorf("%s (-want +have):\n%s", text, d)
		}
	}
	for _, text := range []string{"", "@1.0.0", "beacon@", "Beacon", "beacon@No Channel", "a.b"} {
		if _, err := parseTarget(text); cli.CodeOf(err) != cli.ExitUsage {
			t.Errorf("%q: have %v, want a usage error", text, err)
		}
	}
}
