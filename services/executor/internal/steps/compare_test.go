package steps

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

func TestARefusalNamesTheKindInItsWord(t *testing.T) {
	r := &Run{Record: changeOf("web", "2.0.0")}
	r.To.Manifest.Kind, r.From.Image.Manifest.Kind = agentv1.Kind_KIND_SELF, agentv1.Kind_KIND_FILES
	other := CheckSelf{}.Do(t.Context(), r)
	if !strings.Contains(fault.RefusalOf(other).GetMessage(), "of kind self; what is installed is of kind files") {
		t.Error(other)
	}
	r.From, r.To.Manifest.Kind = nil, agentv1.Kind_KIND_ONESHOT
	adopted := CheckAdoption{}.Do(t.Context(), r)
	if said := fault.RefusalOf(adopted); said.GetCode() != code.NotAdoptable ||
		!strings.Contains(said.GetMessage(), "the image is of kind oneshot,") {
		t.Error(adopted)
	}
}
