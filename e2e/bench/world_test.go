package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// world is a fleet in a temporary directory, which ends with a benchmark, as its connections do.
type world struct {
	*rig.Fleet
	b    *testing.B
	asks *client.Client // see client
}

// newWorld returns a fleet that was not started.
func newWorld(b *testing.B, o rig.Options) *world {
	o.Bin, o.Dir = programs(b), must(os.MkdirTemp("", "garrison-bench-"))(b)
	w := &world{Fleet: must(rig.New(o))(b), b: b}
	b.Cleanup(w.end)
	return w
}

// begin starts everything.
func begin(b *testing.B) *world {
	w := newWorld(b, rig.Options{})
	check(b, w.Start(b.Context()))
	return w
}

// busOnly starts the bus, without services.
func busOnly(b *testing.B, o rig.Options) *world {
	o.Apart = true
	w := newWorld(b, o)
	check(b, w.StartBus(b.Context()))
	return w
}

// end stops the fleet and deletes its directory. It does nothing the second time.
func (w *world) end() {
	if w.Fleet != nil {
		check(w.b, errors.Join(w.Close(), os.RemoveAll(w.Dir)))
	}
	w.Fleet = nil
}

// ok runs the CLI, which must exit with 0.
func (w *world) ok(args ...string) string { return must(w.CLI(w.b.Context(), args...))(w.b) }

// oneServer starts everything, with one server that is online. The first of the versions
// of beacon, when there are any, is on it.
func oneServer(b *testing.B, of ...sample.Version) (*world, *rig.Server) {
	w := begin(b)
	server := must(w.AddServer(b.Context(), "alpha"))(b)
	w.waitOnline(1)
	if len(of) > 0 {
		w.versions(of...)
		w.ok("install", sample.Agent+"@"+of[0].Version, "--on", server.Name)
	}
	return w, server
}

// startLimit bounds the start of a service: its ledger may be large.
const startLimit = 30 * time.Minute

// serve starts a service in a process of its own, and waits until it answers.
func (w *world) serve(service string, args ...string) {
	check(w.b, w.StartService(service, args...))
	conn := w.operator()
	ctx, cancel := context.WithTimeout(w.b.Context(), startLimit)
	defer cancel()
	about := apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService").Methods().ByName("About")
	check(w.b, rig.Until(ctx, service+" answers", func(ctx context.Context) error {
		once, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := bus.Call[*apiv1.AboutResponse](once, conn, service, about, &apiv1.AboutRequest{})
		return err
	}))
}

func (w *world) credentials(service string) string {
	return filepath.Join(w.Dir, "data", "trust", "services", service+".creds")
}

// dial connects through package bus.
func (w *world) dial(o bus.Options) *bus.Conn {
	o.Log = zerolog.Nop()
	conn := must(bus.Dial(o))(w.b)
	w.b.Cleanup(conn.Close)
	return conn
}

// connect connects without package bus.
func (w *world) connect(options ...nats.Option) *nats.Conn {
	nc := must(nats.Connect(w.URL(), append(options, nats.Timeout(loginWithin))...))(w.b)
	w.b.Cleanup(nc.Close)
	return nc
}

// service connects as a service, through package bus.
func (w *world) service(name string) *bus.Conn {
	return w.dial(bus.Options{
		URL: w.URL(), Name: name, API: topology.APIOf(name), Credentials: trust.ReadCredentials(w.credentials(name)),
	})
}

// raw connects as a service, without package bus.
func (w *world) raw(name string) *nats.Conn {
	return w.connect(nats.UserCredentials(w.credentials(name)), nats.CustomInboxPrefix(topology.Inbox(name)))
}

// operator connects as the first operator.
func (w *world) operator() *bus.Conn {
	c := must(trust.ReadContext(w.ContextFile()))(w.b)
	return w.dial(bus.Options{URL: c.URL, Name: c.Actor, TLS: bus.TLSOf(c), Credentials: c.Credentials})
}

// client returns the connection of the operator, one for each fleet: the bus allows a user few.
func (w *world) client() *client.Client {
	if w.asks == nil {
		w.asks = must(w.Client(w.b.Context(), 0))(w.b)
		w.b.Cleanup(w.asks.Close)
	}
	return w.asks
}

// waitOnline waits until that many servers are online.
func (w *world) waitOnline(n int) {
	w.poll("servers are online", func() (bool, error) {
		out, err := w.CLI(w.b.Context(), "server", "list", "-o", "json", "--limit", strconv.Itoa(n+1))
		return strings.Count(out, `"presence": "online"`) == n, err
	})
}

// waitConverged waits until that many instances are converged at a version.
func (w *world) waitConverged(version string, n int) {
	w.poll("instances are converged", func() (bool, error) {
		out, err := w.CLI(w.b.Context(), "instance", "list", "--kind", "daemon", "--no-headers", "--limit",
			strconv.Itoa(n+1))
		done := 0
		for line := range strings.Lines(out) {
			if strings.Contains(line, "converged") && strings.Count(line, version) >= 1 {
				done++
			}
		}
		return done == n, err
	})
}

func (w *world) poll(what string, done func() (bool, error)) {
	ctx, cancel := context.WithTimeout(w.b.Context(), 2*time.Minute)
	defer cancel()
	check(w.b, rig.Until(ctx, what, func(context.Context) error {
		ok, err := done()
		if err == nil && !ok {
			err = errors.New("not yet")
		}
		return err
	}))
}

// loginWithin bounds a login at a bus that is busy with the logins of many servers.
const loginWithin = time.Minute

// unlimited connects to an account as a user with every permission there, to measure the bare
// limits. The account's own key signs the user.
func (w *world) unlimited(account string) *nats.Conn {
	token, seed := w.anyoneOf(account)
	return w.connect(nats.UserJWTAndSeed(token, string(seed)))
}

// anyone connects to CORE like unlimited, but through package bus.
func (w *world) anyone() *bus.Conn {
	token, seed := w.anyoneOf(topology.AccountCore)
	return w.dial(bus.Options{
		URL: w.URL(), Name: "bench", Persist: true, // the bus may be busy
		Credentials: func() (string, []byte, error) { return token, seed, nil },
	})
}

// anyoneOf signs a user of an account without limits.
func (w *world) anyoneOf(account string) (token string, seed []byte) {
	accountSeed := must(os.ReadFile(filepath.Join(w.Dir, "data", "trust", "keys", account+".seed")))(w.b)
	key := must(nkeys.FromSeed([]byte(strings.TrimSpace(string(accountSeed)))))(w.b)
	public, seed, err := trust.NewUserKey()
	check(w.b, err)
	claims := jwt.NewUserClaims(public)
	claims.Name = "bench"
	return must(claims.Encode(key))(w.b), seed
}

// versions creates the agent beacon with these versions, by the CLI.
func (w *world) versions(of ...sample.Version) {
	w.ok("agent", "create", sample.Agent, "--kind", "daemon")
	check(w.b, sample.Import(w.b.Context(), w.CLI, w.Bin, w.Dir, of...))
}

// quick is a version that loses no time on purpose.
func quick(version string) sample.Version {
	return sample.Version{Version: version, Ready: "10s", Soak: "100ms", Stop: "5s"}
}
