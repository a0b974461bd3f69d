package console

import (
	"net/http/httptest"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// asking returns a visit of an address.
func asking(address string) *visit { return &visit{Request: httptest.NewRequest("GET", address, nil)} }

// A map by version is of one agent: without one it would ask for every instance. It asks for none: there is no bus.
func TestAMapByVersionNamesItsAgent(t *testing.T) {
	t.Parallel()
	if _, err := mapPage(asking("/console/map?by=version")); !fault.Is(err, fault.Invalid) {
		t.Errorf("a map by the versions of no agent: %v", err)
	}
}
