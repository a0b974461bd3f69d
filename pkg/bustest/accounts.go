package bustest

import (
	"context"
	"encoding/hex"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Guarded is a bus with the real accounts, keys and permissions, listening on a free
// loopback port.
type Guarded struct {
	Authority *trust.Authority
	URL       string
	Name      string // of the server

	options server.Options
	server  *server.Server
	chunks  sync.Once
	t       testing.TB // whose bus it is
}

// StartGuarded starts a bus with accounts and every stream, which ends with the test.
func StartGuarded(t testing.TB) *Guarded {
	t.Helper()
	a, options := authority(t)
	options.ServerName, options.Host, options.Port = "guarded", "127.0.0.1", freePort(t)
	options.JetStream, options.StoreDir, options.SyncInterval = true, t.TempDir(), time.Minute
	g := &Guarded{Authority: a, Name: options.ServerName, options: options, t: t}
	g.Start(t)
	t.Cleanup(g.Stop)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	streams := bus.NewStreams(g.Service(t, topology.UserProvision))
	if err := streams.Provision(ctx, topology.Bus{Replicas: 1}); err != nil {
		t.Fatalf("provision the bus: %v", err)
	}
	return g
}

// authority creates an authority, and the options of a server that trusts it.
func authority(t testing.TB) (*trust.Authority, server.Options) {
	t.Helper()
	a, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	operator, err := jwt.DecodeOperatorClaims(a.OperatorJWT)
	if err != nil {
		t.Fatal(err)
	}
	return a, server.Options{
		TrustedOperators: []*jwt.OperatorClaims{operator}, SystemAccount: a.SystemAccount,
		AccountResolver: resolver(t, a),
	}
}

// resolver returns the accounts of one server, which the service access can change.
func resolver(t testing.TB, a *trust.Authority) server.AccountResolver {
	t.Helper()
	r, err := server.NewDirAccResolver(t.TempDir(), 0, time.Minute, server.NoDelete)
	if err != nil {
		t.Fatal(err)
	}
	for public, token := range a.Accounts {
		if err := r.Store(public, token); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// Service connects with a service's own credentials.
func (g *Guarded) Service(t testing.TB, name string) *bus.Conn {
	t.Helper()
	return g.dial(t, bus.Options{
		Name: name, API: topology.APIOf(name), Credentials: trust.ReadCredentials(g.Authority.ServiceCredentials(name)),
	})
}

// ServeChunks serves the chunks of every image that is stored on the bus for as long as it runs, however often it is
// called: one that ended with a subtest would leave requests of others without an answer.
func (g *Guarded) ServeChunks() {
	g.t.Helper()
	g.chunks.Do(func() { ServeChunks(g.t, g.Service(g.t, topology.UserCatalog)) })
}

// Person connects with the credentials of a person in a role.
func (g *Guarded) Person(t testing.TB, name string, role topology.Role) *bus.Conn {
	t.Helper()
	c, err := g.Authority.Person(name, role, g.URL, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return g.dial(t, bus.Options{Name: name, Credentials: c.Credentials})
}

// Server connects as a server that is enrolled.
func (g *Guarded) Server(t testing.TB, id, cell string) *bus.Conn {
	t.Helper()
	token, seed := g.ServerUser(t, id, cell)
	return g.dial(t, bus.Options{
		Name:        id,
		API:         topology.NodesAPI,
		Credentials: func() (string, []byte, error) { return token, seed, nil },
	})
}

// Raw connects as a server that is enrolled and does not keep to package bus.
func (g *Guarded) Raw(t testing.TB, id, cell string) *nats.Conn {
	t.Helper()
	token, seed := g.ServerUser(t, id, cell)
	return g.raw(t, id, token, seed)
}

// RawService connects with a service's own credentials without package bus.
func (g *Guarded) RawService(t testing.TB, name string) *nats.Conn {
	t.Helper()
	token, seed, err := trust.ReadCredentials(g.Authority.ServiceCredentials(name))()
	if err != nil {
		t.Fatal(err)
	}
	return g.raw(t, name, token, seed)
}

// RawPerson connects as a person in a role without package bus.
func (g *Guarded) RawPerson(t testing.TB, name string, role topology.Role) *nats.Conn {
	t.Helper()
	c, err := g.Authority.Person(name, role, g.URL, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return g.raw(t, name, c.JWT, []byte(c.Seed))
}

func (g *Guarded) raw(t testing.TB, name, token string, seed []byte) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(g.URL, rawOptions(name, token, seed)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// ServerUser returns the credentials of a server that is enrolled, for tests that dial without package bus.
func (g *Guarded) ServerUser(t testing.TB, id, cell string) (token string, seed []byte) {
	t.Helper()
	signer, err := trust.OpenSigner(g.Authority.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	public, seed, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err = signer.Server(public, id, cell, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return token, seed
}

func (g *Guarded) dial(t testing.TB, o bus.Options) *bus.Conn {
	t.Helper()
	o.URL, o.Log = g.URL, zerolog.Nop()
	c, err := bus.Dial(o)
	if err != nil {
		t.Fatalf("connect as %s: %v", o.Name, err)
	}
	t.Cleanup(c.Close)
	return c
}

// RawAs connects with given credentials without package bus.
func (g *Guarded) RawAs(t testing.TB, name, token string, seed []byte) *nats.Conn {
	t.Helper()
	return g.raw(t, name, token, seed)
}

// Dir returns the directory of the authority.
func (g *Guarded) Dir() string { return filepath.Dir(g.Authority.SignerDir()) }

// TryRaw connects once with given credentials without package bus, and never again.
func (g *Guarded) TryRaw(name, token string, seed []byte) (*nats.Conn, error) {
	return nats.Connect(g.URL, append(rawOptions(name, token, seed), nats.NoReconnect())...)
}

func rawOptions(name, token string, seed []byte) []nats.Option {
	return []nats.Option{
		nats.Timeout(time.Minute), nats.CustomInboxPrefix(topology.Inbox(name)),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
		nats.UserJWT(func() (string, error) { return token, nil }, func(nonce []byte) ([]byte, error) {
			pair, err := nkeys.FromSeed(seed)
			if err != nil {
				return nil, err
			}
			return pair.Sign(nonce)
		}),
	}
}

// ServeChunks answers requests for chunks from the stream until the test ends or stop is called, as the image-catalog
// does, but to every server. On a guarded bus the connection is the image-catalog's.
func ServeChunks(t testing.TB, c *bus.Conn) (stop func()) {
	t.Helper()
	stop, err := c.SubscribeShared(topology.ChunkRequestSubjects, topology.UserCatalog, func(m bus.Message) {
		a, err := topology.ParseChunkRequestSubject(m.Subject)
		if err != nil {
			t.Errorf("request for a chunk: %v", err)
			return
		}
		digest, _ := hex.DecodeString(a.Digest)
		stored, err := c.DirectGet(t.Context(), topology.Blobs, topology.BlobSubject(digest, a.Number))
		if err == nil {
			err = c.Publish(topology.ChunkAnswerSubject(a), stored.Data)
		} else if fault.Is(err, fault.NotFound) {
			err = c.PublishRefusal(topology.ChunkAnswerSubject(a),
				fault.Refusef(fault.NotFound, code.Incomplete, "chunk %d is not stored", a.Number))
		}
		if err != nil && t.Context().Err() == nil {
			t.Logf("chunk not answered: %v", err) // the bus is stopped by the test; the request is repeated
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return stop
}
