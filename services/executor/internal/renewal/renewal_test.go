package renewal_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/renewal"
)

func TestCredentialsAreRenewedAfterHalfOfTheirTime(t *testing.T) {
	from := time.Unix(1_000_000, 0)
	until := from.Add(90 * 24 * time.Hour)
	started := from.Add(time.Hour)
	for name, c := range map[string]struct {
		until  time.Time
		spread float64
		want   time.Time
	}{
		"the first of a fleet": {until, 0, from.Add(45 * 24 * time.Hour)},
		"the last of a fleet":  {until, 1, from.Add(54 * 24 * time.Hour)},
		"without an end":       {time.Time{}, 0.5, started.Add(30 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := renewal.Due(from, c.until, started, c.spread); !got.Equal(c.want) {
				t.Errorf("due %v, want %v", got, c.want)
			}
		})
	}
}

const server = "01a1fc88-01b0-78a7-8be5-02349c182293"

// registry signs the keys of servers on a bus with the real accounts.
type registry struct {
	signer   *trust.Signer
	lifetime time.Duration

	mu    sync.Mutex
	asked int
}

func (r *registry) renew(_ context.Context, _ string, q *registryv1.RenewRequest) (*registryv1.RenewResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked++; r.asked == 1 {
		return nil, fault.New(fault.Unavailable, "the first request finds no registry")
	}
	jwt, err := r.signer.Server(q.PublicKey, q.ServerId, "main", time.Now().Add(r.lifetime))
	return &registryv1.RenewResponse{UserJwt: jwt}, err
}

// joined is a server on a bus, whose credentials end soon.
type joined struct {
	root  layout.Root
	conn  *bus.Conn
	until time.Time
}

func join(t *testing.T, lifetime time.Duration) joined {
	t.Helper()
	g := bustest.StartGuarded(t)
	signer, err := trust.OpenSigner(g.Authority.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &registry{signer: signer, lifetime: lifetime}
	stop, err := bus.Answer(g.Service(t, topology.UserRegistry), topology.RenewSubjects, "registry", r.renew)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	root, err := layout.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key, err := identity.OpenKey(root)
	if err != nil {
		t.Fatal(err)
	}
	jwt, err := signer.Server(key.Public, server, "main", time.Now().Add(lifetime))
	if err != nil {
		t.Fatal(err)
	}
	is := identity.Identity{ServerID: server, Cell: "main", URL: g.URL, JWT: jwt}
	if err := is.Write(root); err != nil {
		t.Fatal(err)
	}
	conn, err := bus.Dial(bus.Options{
		URL: g.URL, Name: server, API: topology.NodesAPI, Credentials: identity.Credentials(root), Persist: true,
		MaxBackoff: 100 * time.Millisecond, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	_, until := trust.Times(jwt)
	return joined{root: root, conn: conn, until: until}
}

func (j joined) jwt(t *testing.T) string {
	t.Helper()
	is, err := identity.Read(j.root)
	if err != nil {
		t.Fatal(err)
	}
	return is.JWT
}

func TestAServerStaysConnectedBeyondTheEndOfItsFirstCredentials(t *testing.T) {
	j := join(t, 4*time.Second)
	r := &renewal.Renewal{Root: j.root, Conn: j.conn, Log: zerolog.Nop()}
	bustest.Go(t, func(ctx context.Context) error {
		if err := r.Run(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	})
	polltest.Eventually(t, "it is connected with credentials of another period", func() bool {
		from, _ := trust.Times(j.jwt(t))
		return from.After(j.until) && j.conn.Connected()
	})
}

func TestWithoutARenewalTheBusRefusesTheServer(t *testing.T) {
	j := join(t, 2*time.Second)
	polltest.Eventually(t, "the credentials have expired", func() bool {
		return j.conn.Access().Login == bus.LoginExpired
	})
}
