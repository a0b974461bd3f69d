package executor

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
	"github.com/garrison-fleet/garrison/services/executor/internal/fate"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
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

const judged = "0197b5a0-0000-7000-8000-000000000007"

// However many report the same facts at once, one decision follows.
func TestManyReportsAtOnceGiveOneDecision(t *testing.T) {
	s := testSigner(t)
	proof, err := s.Tombstone(judged, "main", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	x := New(Config{Root: t.TempDir()})
	who := identity.Identity{ServerID: judged, Cell: "main", Ownership: identity.Manual, TombstoneKey: s.TombstoneKey()}
	g := x.newJudge(who, func() bus.Access { return bus.Access{Login: bus.LoginIn} }, zerolog.Nop())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ends := make(chan error, 1)
	go func() { ends <- g.run(ctx) }()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { g.believe(&desiredv1.Document{Life: serverv1.Life_LIFE_DEAD, Tombstone: proof}) })
		all.Go(func() { g.heard(nil) })
	}
	all.Wait()
	select {
	case err := <-ends:
		t.Fatalf("it decided %v while nobody had said that no agent is left", err)
	case <-time.After(2 * judgeEvery):
	}
	for range 50 {
		all.Go(func() { g.left(engine.Remains{}) })
	}
	all.Wait()
	if err := <-ends; !errors.Is(err, errUninstall) {
		t.Errorf("it ended with %v", err)
	}
}

func TestALoginIsToldApartByWhatTheServerKnowsOfItself(t *testing.T) {
	s := testSigner(t)
	public, _, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	always, err := s.Server(public, judged, "main")
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Hour)
	short, _, err := s.Guest(judged, "main", until)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		login bus.Login
		jwt   string
		read  fate.Login
		at    time.Time
		want  fate.Login
	}{
		"in":                             {bus.LoginIn, always, fate.LoginIn, time.Now(), fate.LoginIn},
		"in, and nothing is there":       {bus.LoginIn, always, fate.LoginNotProvisioned, time.Now(), fate.LoginNotProvisioned},
		"not tried yet":                  {bus.LoginPending, always, fate.LoginIn, time.Now(), fate.LoginPending},
		"away":                           {bus.LoginAway, always, fate.LoginNotProvisioned, time.Now(), fate.LoginAway},
		"starting":                       {bus.LoginStarting, always, fate.LoginIn, time.Now(), fate.LoginStarting},
		"expired, the bus says":          {bus.LoginExpired, always, fate.LoginIn, time.Now(), fate.LoginExpired},
		"revoked, the bus says":          {bus.LoginRevoked, always, fate.LoginIn, time.Now(), fate.LoginRevoked},
		"unreadable":                     {bus.LoginUnreadable, "", fate.LoginIn, time.Now(), fate.LoginUnreadable},
		"in words that nobody knows":     {bus.LoginOther, always, fate.LoginIn, time.Now(), fate.LoginOther},
		"denied":                         {bus.LoginDenied, always, fate.LoginIn, time.Now(), fate.LoginDenied},
		"denied in time":                 {bus.LoginDenied, short, fate.LoginIn, until.Add(-time.Minute), fate.LoginDenied},
		"denied too late":                {bus.LoginDenied, short, fate.LoginIn, until.Add(time.Minute), fate.LoginExpired},
		"denied before it was made":      {bus.LoginDenied, always, fate.LoginIn, time.Now().Add(-time.Hour), fate.LoginSkew},
		"denied with a JWT that is none": {bus.LoginDenied, "x", fate.LoginIn, time.Now(), fate.LoginDenied},
	} {
		t.Run(name, func(t *testing.T) {
			if got := loginOf(bus.Access{Login: c.login}, c.jwt, c.read, c.at); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// A refusal is looked at five times a second, and what it is compared with is read once.
func TestTheIdentityIsReadOnceForEachTryThatIsRefused(t *testing.T) {
	access := bus.Access{Login: bus.LoginDenied, NextTry: time.Now()}
	x := New(Config{Root: t.TempDir()})
	g := x.newJudge(identity.Identity{ServerID: judged, Cell: "main"}, func() bus.Access { return access }, zerolog.Nop())
	reads := 0
	g.jwt = func() string { reads++; return "" }
	for range 3 {
		access.NextTry = access.NextTry.Add(time.Second)
		for range 10 {
			g.decide()
		}
	}
	if reads != 3 {
		t.Errorf("read %d times in three tries", reads)
	}
}

// A bus that lets a server in without the streams that it needs is not ready, and no refusal.
func TestABusWithoutStreamsIsNotProvisioned(t *testing.T) {
	x := New(Config{Root: t.TempDir()})
	g := x.newJudge(identity.Identity{ServerID: judged, Cell: "main"}, func() bus.Access { return bus.Access{Login: bus.LoginIn} }, zerolog.Nop())
	g.heard(fault.New(fault.Unavailable, "no responders"))
	if v := g.decide(); v != (fate.Verdict{Fate: fate.Work, Code: "NOT_PROVISIONED"}) {
		t.Errorf("%v", v)
	}
	g.heard(nil)
	if v := g.decide(); v != (fate.Verdict{}) {
		t.Errorf("%v", v)
	}
}
