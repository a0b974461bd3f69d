package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// The bus answers a login with expired credentials by "Authorization Violation" alone, and so does a revocation.
func TestALoginWithExpiredCredentialsSaysSinceWhenAndWhatToDo(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	registry := g.Service(t, topology.UserRegistry)
	s, err := registry.NewService(ledger.Registry, "v1.0.0", client.Services[ledger.Registry])
	if err == nil {
		err = facts.Serve(s, registry)
	}
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(3 * time.Second).Truncate(time.Second)
	who, err := g.Authority.Person("ann", topology.Viewer, g.URL, until)
	if err != nil {
		t.Fatal(err)
	}
	who.CA = ""
	c, err := client.Connect(within(t), client.Options{Context: who, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// It waits for facts, and ends when no further one can come.
	for _, err := range c.Follow(within(t), client.Query{}) {
		wantExpired(t, "a view that was open", err, until)
	}
	_, err = c.LedgerEnd(within(t))
	wantExpired(t, "a call", err, until)
	polltest.Eventually(t, "the login is refused", func() bool { // the bus counts whole seconds
		again, err := client.Connect(within(t), client.Options{Context: who})
		if err != nil {
			wantExpired(t, "a login", err, until)
			return true
		}
		again.Close()
		return false
	})
}

func wantExpired(t *testing.T, what string, err error, until time.Time) {
	t.Helper()
	r := fault.RefusalOf(err)
	if r.GetCode() != "CREDENTIALS_EXPIRED" || !fault.Is(err, fault.Denied) ||
		!strings.Contains(r.GetMessage(), "ann expired at "+until.UTC().Format(time.RFC3339)) ||
		!strings.Contains(r.GetTry(), "garrison user create ann --role viewer") {
		t.Errorf("%s: have %v, want since when, and what to do", what, err)
	}
}

func TestALoginThatIsRefusedSaysWhatTheCredentialsAndTheClockSay(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	now := time.Now()
	who, err := g.Authority.Person("ann", topology.Viewer, g.URL, now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(bus.Options) (*bus.Conn, error) {
		return nil, fault.New(fault.Denied, "connect to the bus at %s: nats: Authorization Violation", g.URL)
	}
	_, err = client.Connect(within(t), client.Options{Context: who, Dial: refused})
	r := fault.RefusalOf(err)
	if r.GetCode() != "LOGIN_REFUSED" || !strings.Contains(r.GetMessage(), "are valid until ") ||
		!strings.Contains(r.GetTry(), "garrison user list") {
		t.Errorf("have %v, want that they have not expired", err)
	}
}
