package console

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// asking returns a visit of an address.
func asking(address string) *visit { return &visit{Request: httptest.NewRequest("GET", address, nil)} }

// A map by version is of one agent: without one it would ask for every instance. It asks for none: there is no bus.
func TestAMapByVersionNamesItsAgent(t *testing.T) {
	t.Parallel()
	_, err := colouring(asking("/console/map?by=version"), &registryv1.ListServersRequest{})
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("a map by the versions of no agent: %v", err)
	}
}

// What narrows a list of servers narrows its map, the map's tabs and searches, and what the map leads to.
func TestFiltersOfServersAreKept(t *testing.T) {
	t.Parallel()
	v := asking("/console/map?on=rack%3Da&presence=offline&trouble=full&leaked=1&by=silence")
	const all = "leaked=1&on=rack%3Da&presence=offline&trouble=full"
	if have := v.selecting("map", url.Values{}); have != "/console/map?"+all {
		t.Errorf("the map of these servers is %s", have)
	}
	for _, is := range mapTabs(v) {
		if is.Path != "/console/map?by="+is.Name+"&"+all {
			t.Errorf("the tab %s leads to %s", is.Name, is.Path)
		}
	}
	var names []string
	for _, is := range kept(v, filters...) {
		names = append(names, is.Name+"="+is.Value)
	}
	if d := cmp.Diff([]string{"presence=offline", "trouble=full", "leaked=1"}, names); d != "" {
		t.Errorf("a search keeps others: %s", d)
	}
	if have := v.selecting("servers", url.Values{"unconfirmed": {"24h"}, "presence": {"online"}}); have !=
		"/console/servers?leaked=1&on=rack%3Da&presence=online&trouble=full&unconfirmed=24h" {
		t.Errorf("a colour leads to %s", have)
	}
	if have := v.selecting("instances", url.Values{"agent": {"beacon"}}); have != "" {
		t.Errorf("agents of more servers than are drawn are counted: %s", have)
	}
}

// A parameter that cannot be read is the fault of the address, not of the gateway.
func TestAFilterThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"unconfirmed=x", "presence=x", "on=a,%2Cb"} {
		if _, err := serversAsked(asking("/console/servers?" + query)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", query, err)
		}
	}
}
