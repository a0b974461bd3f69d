package monitor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
)

func testSigner(t *testing.T) *trust.Signer {
	t.Helper()
	a, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := trust.OpenSigner(a.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const serverID = "0197b5a0-0000-7000-8000-000000000007"

// However many parts report the same facts at once, one decision follows.
func TestConcurrentReportsLeadToOneDecision(t *testing.T) {
	s := testSigner(t)
	proof, err := s.Tombstone(serverID, "main", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	who := identity.Identity{
		ServerID: serverID, Cell: "main", Ownership: identity.Manual, TombstoneKey: s.TombstoneKey(),
	}
	m := New(Config{
		Identity: who, Access: func() bus.Access { return bus.Access{Login: bus.LoginIn} }, Log: zerolog.Nop(),
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ends := make(chan error, 1)
	go func() { ends <- m.Run(ctx) }()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { m.Document(&desiredv1.Document{Life: serverv1.Life_LIFE_DEAD, Tombstone: proof}) })
		all.Go(func() { m.DocumentRead(nil) })
	}
	all.Wait()
	select {
	case err := <-ends:
		t.Fatalf("Run returned %v before the engine reported that no agent is left", err)
	case <-time.After(2 * pollEvery):
	}
	for range 50 {
		all.Go(func() { m.Remaining(engine.Remains{}) })
	}
	all.Wait()
	if err := <-ends; !errors.Is(err, ErrUninstall) {
		t.Errorf("Run returned %v", err)
	}
}

func TestTheServersOwnJWTTellsRefusedLoginsApart(t *testing.T) {
	s := testSigner(t)
	public, _, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	always, err := s.Server(public, serverID, "main", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Hour)
	short, err := s.Guest(serverID, "main", until)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		login bus.Login
		jwt   string
		read  lifecycle.Login
		at    time.Time
		want  lifecycle.Login
	}{
		"in": {bus.LoginIn, always, lifecycle.LoginIn, time.Now(), lifecycle.LoginIn},
		"in, without streams": {
			bus.LoginIn, always, lifecycle.LoginNotProvisioned, time.Now(), lifecycle.LoginNotProvisioned,
		},
		"not tried yet": {bus.LoginPending, always, lifecycle.LoginIn, time.Now(), lifecycle.LoginPending},
		"away": {
			bus.LoginAway, always, lifecycle.LoginNotProvisioned, time.Now(), lifecycle.LoginAway,
		},
		"starting": {
			bus.LoginStarting, always, lifecycle.LoginIn, time.Now(), lifecycle.LoginStarting,
		},
		"expired, the bus says": {bus.LoginExpired, always, lifecycle.LoginIn, time.Now(), lifecycle.LoginExpired},
		"revoked, the bus says": {bus.LoginRevoked, always, lifecycle.LoginIn, time.Now(), lifecycle.LoginRevoked},
		"unreadable": {
			bus.LoginUnreadable, "", lifecycle.LoginIn, time.Now(), lifecycle.LoginUnreadable,
		},
		"not the bus": {
			bus.LoginUntrusted, always, lifecycle.LoginIn, time.Now(), lifecycle.LoginUntrusted,
		},
		"for an unknown reason": {bus.LoginOther, always, lifecycle.LoginIn, time.Now(), lifecycle.LoginOther},
		"denied":                {bus.LoginDenied, always, lifecycle.LoginIn, time.Now(), lifecycle.LoginDenied},
		"denied in time": {
			bus.LoginDenied, short.JWT, lifecycle.LoginIn, until.Add(-time.Minute), lifecycle.LoginDenied,
		},
		"denied too late": {
			bus.LoginDenied, short.JWT, lifecycle.LoginIn, until.Add(time.Minute), lifecycle.LoginExpired,
		},
		"denied before it is valid": {
			bus.LoginDenied, always, lifecycle.LoginIn, time.Now().Add(-time.Hour), lifecycle.LoginSkew,
		},
		"denied with an invalid JWT": {bus.LoginDenied, "x", lifecycle.LoginIn, time.Now(), lifecycle.LoginDenied},
	} {
		t.Run(name, func(t *testing.T) {
			if got := loginOf(bus.Access{Login: c.login}, c.jwt, c.read, c.at); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// Run decides five times a second, and reads the file once for each refused login.
func TestTheJWTIsReadOnceForEachRefusedLogin(t *testing.T) {
	access := bus.Access{Login: bus.LoginDenied, NextTry: time.Now()}
	reads := 0
	m := New(Config{
		Identity: identity.Identity{ServerID: serverID, Cell: "main"},
		Access:   func() bus.Access { return access },
		JWT:      func() string { reads++; return "" },
		Log:      zerolog.Nop(),
	})
	for range 3 {
		access.NextTry = access.NextTry.Add(time.Second)
		for range 10 {
			m.Decide()
		}
	}
	if reads != 3 {
		t.Errorf("read %d times, want once for each of three attempts", reads)
	}
}

// A bus without the streams that servers need is not ready; that is not a refusal.
func TestABusWithoutStreamsIsNotProvisioned(t *testing.T) {
	m := New(Config{
		Identity: identity.Identity{ServerID: serverID, Cell: "main"},
		Access:   func() bus.Access { return bus.Access{Login: bus.LoginIn} },
		Log:      zerolog.Nop(),
	})
	m.DocumentRead(fault.New(fault.Unavailable, "no responders"))
	if _, o := m.Decide(); o != (lifecycle.Outcome{Action: lifecycle.Work, Code: "NOT_PROVISIONED"}) {
		t.Errorf("%v", o)
	}
	m.DocumentRead(nil)
	if _, o := m.Decide(); o != (lifecycle.Outcome{}) {
		t.Errorf("%v", o)
	}
}
