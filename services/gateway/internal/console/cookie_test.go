package console

import (
	"net/http/httptest"
	"testing"
)

// Browsers send a cookie to every port of its host, so that two gateways there must not share one.
func TestGatewaysOfOneHostHaveCookiesOfTheirOwn(t *testing.T) {
	t.Parallel()
	name := func(address string) string { return nameOf(httptest.NewRequest("GET", address, nil)) }
	first, second := name("http://127.0.0.1:8440/console"), name("http://127.0.0.1:8441/console")
	if first == second || name("https://garrison.example.com/console") != cookieName {
		t.Errorf("%s and %s; without a port %s", first, second, name("https://garrison.example.com/console"))
	}
}
