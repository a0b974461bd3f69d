package rig

import (
	"net/netip"
	"testing"
)

func TestNetworksHideNoRouteOfTheHost(t *testing.T) {
	tests := netip.MustParsePrefix("198.18.0.0/15") // RFC 2544
	for range 100 {
		n := newNetworks()
		if a, err := netip.ParseAddr(n.prefix + "254"); err != nil || !tests.Contains(a) {
			t.Fatalf("%s254 is not in %s (%v)", n.prefix, tests, err)
		}
	}
}
