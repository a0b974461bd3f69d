package bus

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

func TestPlainIsRefusedToOtherHosts(t *testing.T) {
	t.Parallel()
	for addresses, refused := range map[string]bool{
		"nats://10.9.8.7:4222":                   true,
		"bus.example:4222":                       true,
		"nats://127.0.0.1:1, nats://10.9.8.7:1":  true,
		"ws://10.9.8.7:4222":                     true,
		"nats://localhost:1,nats://[::1]:1":      false,
		"nats://127.0.0.1:1":                     false,
		"nats://127.0.0.1:1,tls://10.9.8.7:4222": false, // TLS to both
	} {
		urls, err := parseURLs(addresses)
		if err != nil {
			t.Fatal(err)
		}
		for _, allowed := range []bool{false, true} {
			_, _, err := TLS{AllowPlain: allowed}.secure(urls)
			if got := fault.RefusalOf(err).GetCode() == code.PlainRefused; got != (refused && !allowed) {
				t.Errorf("%s, plain allowed: %t: %v", addresses, allowed, err)
			}
		}
		if _, secure, err := (TLS{Pins: []string{"x"}}).secure(urls); !secure || err != nil {
			t.Errorf("%s with a pin: %t, %v; want TLS", addresses, secure, err)
		}
	}
}

// A bus on this host may name servers on other hosts; the client must not follow in plain.
func TestAPlainClientNeverLeavesThisHost(t *testing.T) {
	t.Parallel()
	if _, err := (loopbackDialer{}).Dial("tcp", "10.9.8.7:4222"); fault.RefusalOf(err).GetCode() != code.PlainRefused {
		t.Errorf("%v; want %s", err, code.PlainRefused)
	}
}
