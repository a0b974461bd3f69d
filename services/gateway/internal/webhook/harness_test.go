package webhook

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/trust"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

// world is a bus with a ledger, and the files of webhooks.
type world struct {
	*testing.T
	bus     *bustest.Bus
	writer  *bus.Writer
	file    string
	dir     string
	metrics *metrics.Set
	log     strings.Builder
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, bus: bustest.Start(t), dir: filepath.Join(t.TempDir(), "state"), metrics: metrics.New()}
	w.file = filepath.Join(t.TempDir(), "webhooks.yaml")
	w.writer = w.bus.Writer(t, w.bus.Dial(t, "writer"))
	conn := w.bus.Dial(t, ledger.Registry)
	s, err := conn.NewService(ledger.Registry, "v1.0.0", client.Services[ledger.Registry])
	if err == nil {
		err = facts.Serve(s, conn)
	}
	if err == nil {
		who := trust.Context{URL: "nats://127.0.0.1:1", Actor: "hooks"}
		err = who.Write(filepath.Join(filepath.Dir(w.file), "hooks.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// routes writes the file of routes.
func (w *world) routes(text string) {
	w.Helper()
	if err := os.WriteFile(w.file, []byte("as: hooks.json\nroutes:\n"+text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// start runs the webhooks as run does, and waits until each route has a place.
func (w *world) start(changes ...func(*pace)) (stop func()) {
	w.Helper()
	stop = w.run(changes...)
	s, err := readFile(w.file)
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range s.routes {
		w.place(r.name, "has a place", func(place) bool { return true })
	}
	return stop
}

// run runs the webhooks with short pauses, until the test ends or stop is called.
func (w *world) run(changes ...func(*pace)) (stop func()) {
	w.Helper()
	h, err := New(Config{
		File: w.file, Dir: w.dir, Metrics: w.metrics.Under("gateway"), Log: zerolog.New(&w.log), Now: time.Now,
		Connect: func(context.Context, trust.Context) (*client.Client, error) {
			return client.New(w.bus.Dial(w.T, "hooks-"+ident.New()), 0), nil
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	h.pace.least, h.pace.most, h.pace.look = time.Millisecond, 5*time.Millisecond, 10*time.Millisecond
	for _, change := range changes {
		change(&h.pace)
	}
	run := bustest.Go(w.T, h.Run)
	stop = func() { run(); _ = h.Close() }
	w.Cleanup(stop)
	return stop
}

// place waits until the kept place of a route is as wanted.
func (w *world) place(route, what string, is func(place) bool) (p place) {
	w.Helper()
	polltest.Succeeds(w.T, fmt.Sprintf("%s %s", route, what), func() error {
		var found bool
		var err error
		p, found, err = readPlace(w.dir, route)
		if err == nil && (!found || !is(p)) {
			err = fmt.Errorf("it is %+v", p)
		}
		return err
	})
	return p
}

// agent records that an agent was created.
func (w *world) agent(name, description string) {
	w.Helper()
	w.record(ledger.Fact{
		Noun: ledger.Agent, Key: name, Actor: "ann", Source: ledger.Registry,
		Body: &agentv1.Created{Agent: &agentv1.Agent{Name: name, Description: description}},
	})
}

func (w *world) record(f ledger.Fact) {
	w.Helper()
	f.ID, f.At = ident.New(), time.Now()
	if _, err := w.writer.Append(w.Context(), ledger.Free(f)); err != nil {
		w.Fatal(err)
	}
}

// target is a receiver.
type target struct {
	*httptest.Server
	t   *testing.T
	got chan received
}

type received struct {
	header http.Header
	body   string
}

// newTarget returns a receiver whose answer to the nth request is written by answer; nil takes everything.
func newTarget(t *testing.T, answer func(w http.ResponseWriter, q *http.Request, n int)) *target {
	t.Helper()
	in, n := &target{t: t, got: make(chan received, 5000)}, 0
	in.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		n++ // a route sends one request at a time
		in.got <- received{q.Header, string(body)}
		if answer != nil {
			answer(w, q, n)
		}
	}))
	t.Cleanup(in.Close)
	return in
}

// status answers with statuses, and then with 200.
func status(all ...int) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, n int) {
		if n <= len(all) {
			w.WriteHeader(all[n-1])
		}
	}
}

func (in *target) next() received {
	in.t.Helper()
	select {
	case r := <-in.got:
		return r
	case <-time.After(time.Minute):
		in.t.Fatal("no request within a minute")
		return received{}
	}
}

// route returns the lines of a route to the target.
func (in *target) route(name, more string) string {
	return fmt.Sprintf("  - name: %s\n    url: %s/secret-path\n    allow: [127.0.0.0/8]\n%s", name, in.URL, more)
}
