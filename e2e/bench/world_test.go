package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"
)

// world is a fleet in a temporary directory.
type world struct{ *rig.Fleet }

// newWorld starts a control plane: the bus alone, or everything.
func newWorld(ctx context.Context, s settings, busOnly bool) (*world, error) {
	dir, err := os.MkdirTemp("", "garrison-bench-")
	if err != nil {
		return nil, err
	}
	f, err := rig.New(rig.Options{Bin: s.bin, Dir: dir, Apart: busOnly})
	if err != nil {
		return nil, err
	}
	w := &world{f}
	start := f.Start
	if busOnly {
		start = f.StartBus
	}
	if err := start(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// oneServer starts everything, with one server that is online. The first of the versions
// of beacon, when there are any, is on it.
func oneServer(ctx context.Context, s settings, of ...sample.Version) (*world, *rig.Server, error) {
	w, err := newWorld(ctx, s, false)
	if err != nil {
		return nil, nil, err
	}
	server, err := w.oneServer(ctx, of)
	if err != nil {
		return nil, nil, errors.Join(err, w.close())
	}
	return w, server, nil
}

func (w *world) oneServer(ctx context.Context, of []sample.Version) (*rig.Server, error) {
	server, err := w.AddServer(ctx, "alpha")
	if err != nil {
		return nil, err
	}
	if err := waitOnline(ctx, w, 1); err != nil || len(of) == 0 {
		return server, err
	}
	if err := versions(ctx, w, of...); err != nil {
		return nil, err
	}
	_, err = w.CLI(ctx, "install", sample.Agent+"@"+of[0].Version, "--on", server.Name)
	return server, err
}

// startLimit bounds the start of a service: its ledger may be large.
const startLimit = 30 * time.Minute

// begin starts a service in a process of its own, and waits until it answers.
func (w *world) begin(ctx context.Context, service string, args ...string) error {
	if err := w.StartService(service, args...); err != nil {
		return err
	}
	conn, err := w.operator()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	about := apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService").Methods().ByName("About")
	return rig.Until(ctx, service+" answers", func(ctx context.Context) error {
		once, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := bus.Call[*apiv1.AboutResponse](once, conn, service, about, &apiv1.AboutRequest{})
		return err
	})
}

func (w *world) close() error { return errors.Join(w.Close(), os.RemoveAll(w.Dir)) }

func (w *world) credentials(service string) string {
	return filepath.Join(w.Dir, "data", "trust", "services", service+".creds")
}

// service connects as a service, through package bus.
func (w *world) service(name string) (*bus.Conn, error) {
	return bus.Dial(bus.Options{
		URL:         w.URL(),
		Name:        name,
		API:         topology.APIOf(name),
		Credentials: trust.ReadCredentials(w.credentials(name)),
		Log:         zerolog.Nop(),
	})
}

// raw connects as a service, without package bus.
func (w *world) raw(name string) (*nats.Conn, error) {
	return nats.Connect(w.URL(), nats.UserCredentials(w.credentials(name)),
		nats.CustomInboxPrefix(topology.Inbox(name)), nats.Timeout(loginWithin))
}

// operator connects as the first operator.
func (w *world) operator() (*bus.Conn, error) {
	c, err := trust.ReadContext(w.ContextFile())
	if err != nil {
		return nil, err
	}
	return bus.Dial(
		bus.Options{
			URL: c.URL, Name: c.Actor, TLS: bus.TLSOf(c), Credentials: c.Credentials,
			Log: zerolog.Nop(),
		})
}

// waitOnline waits until that many servers are online.
func waitOnline(ctx context.Context, w *world, n int) error {
	return poll(ctx, "servers are online", func() (bool, error) {
		out, err := w.CLI(ctx, "server", "list", "-o", "json", "--limit", strconv.Itoa(n+1))
		return strings.Count(out, "PRESENCE_ONLINE") == n, err
	})
}

// waitConverged waits until that many instances are converged at a version.
func waitConverged(ctx context.Context, w *world, version string, n int) error {
	return poll(ctx, "instances are converged", func() (bool, error) {
		out, err := w.CLI(ctx, "instance", "list", "--kind", "daemon", "--no-headers", "--limit", strconv.Itoa(n+1))
		done := 0
		for line := range strings.Lines(out) {
			if strings.Contains(line, "converged") && strings.Count(line, version) >= 1 {
				done++
			}
		}
		return done == n, err
	})
}

func poll(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return rig.Until(ctx, what, func(context.Context) error {
		ok, err := done()
		if err == nil && !ok {
			err = errors.New("not yet")
		}
		return err
	})
}

// loginWithin bounds a login at a bus that is busy with the logins of many servers.
const loginWithin = time.Minute

// unlimited connects to an account as a user with every permission there, to measure the bare
// limits. The account's own key signs the user.
func unlimited(w *world, account string) (*nats.Conn, error) {
	token, seed, err := anyone(w, account)
	if err != nil {
		return nil, err
	}
	return nats.Connect(w.URL(), nats.UserJWTAndSeed(token, string(seed)), nats.Timeout(loginWithin))
}

// anyone connects to CORE like unlimited, but through package bus.
func (w *world) anyone() (*bus.Conn, error) {
	token, seed, err := anyone(w, topology.AccountCore)
	if err != nil {
		return nil, err
	}
	return bus.Dial(bus.Options{
		URL:         w.URL(),
		Name:        "bench",
		Persist:     true, // the bus may be busy
		Credentials: func() (string, []byte, error) { return token, seed, nil },
		Log:         zerolog.Nop(),
	})
}

// anyone signs a user of an account without limits.
func anyone(w *world, of string) (token string, seed []byte, err error) {
	accountSeed, err := os.ReadFile(filepath.Join(w.Dir, "data", "trust", "keys", of+".seed"))
	if err != nil {
		return "", nil, err
	}
	account, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(accountSeed))))
	if err != nil {
		return "", nil, err
	}
	public, seed, err := trust.NewUserKey()
	if err != nil {
		return "", nil, err
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = "bench"
	token, err = claims.Encode(account)
	return token, seed, err
}

// versions creates the agent beacon with these versions, by the CLI.
func versions(ctx context.Context, w *world, of ...sample.Version) error {
	if _, err := w.CLI(ctx, "agent", "create", sample.Agent, "--kind", "daemon"); err != nil {
		return err
	}
	return sample.Import(ctx, w.CLI, w.Bin, w.Dir, of...)
}

// twoVersions creates the agent beacon with versions 1.0.0 and 2.0.0.
func twoVersions(ctx context.Context, w *world) error {
	return versions(ctx, w, quick("1.0.0"), quick("2.0.0"))
}

// quick is a version that loses no time on purpose.
func quick(version string) sample.Version {
	return sample.Version{Version: version, Ready: "10s", Soak: "100ms", Stop: "5s"}
}
