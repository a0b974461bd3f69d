package changes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// operator connects to the bus as the first operator, as any NATS client can.
func (w *world) operator() *bus.Conn {
	w.T.Helper()
	c, err := trust.ReadContext(w.ContextFile())
	if err != nil {
		w.T.Fatal(err)
	}
	conn, err := bus.Dial(
		bus.Options{
			URL: c.URL, Name: c.Actor, TLS: bus.TLSOf(c), Credentials: c.Credentials,
			Log: zerolog.Nop(),
		})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(conn.Close)
	return conn
}

// publish publishes an intent by hand, without package client: as JSON, which the content type says.
func (w *world) publish(json, verb string) string {
	w.T.Helper()
	id := ident.New()
	conn := w.operator()
	_, err := conn.PublishDurable(scenario.Within(w.T, 20*time.Second), bus.Durable{
		Subject: topology.IntentSubject(verb, conn.Name(), id), Once: true, Type: "application/json",
		Data: []byte(json),
	})
	if err != nil {
		w.T.Fatal(err)
	}
	w.Intents.Add(id)
	return id
}

func TestAnIntentPublishedByHandIsDecided(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	good := w.publish(`{"install":{"agent":"beacon","image":{"version":"1.0.0"},"on":{"servers":["alpha"]}}}`,
		topology.VerbInstall)
	w.Converges("1.0.0")
	w.OK("intent", "show", good)
	const install = topology.VerbInstall
	for name, c := range map[string]struct{ json, verb, code string }{
		"not JSON":         {`{`, install, "MALFORMED"},
		"an unknown field": {`{"instal":{}}`, install, "MALFORMED"},
		"another verb":     {`{"remove":{"agent":"beacon","on":{"all":true}}}`, install, "MALFORMED"},
		"nothing selected": {`{"install":{"agent":"beacon"}}`, install, "EMPTY_SELECTOR"},
		"an unknown agent": {`{"install":{"agent":"becon","on":{"all":true}}}`, install, "UNKNOWN_AGENT"},
	} {
		t.Run(name, func(t *testing.T) {
			w.T = t
			id := w.publish(c.json, c.verb)
			w.Eventually("it is refused", func() error {
				_, err := w.CLI(t.Context(), "intent", "show", id)
				return err
			})
			if out := w.OK("intent", "show", id, "-o", "json"); !strings.Contains(out, c.code) {
				t.Errorf("want code %s in: %s", c.code, out)
			}
		})
	}
	w.T = t
	w.Holds()
}

func TestTheSameIntentPublishedTwiceIsDecidedOnce(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	conn := w.operator()
	id := ident.New()
	w.Intents.Add(id)
	for range 2 { // not Once, so that only the registry can detect the repetition
		_, err := conn.PublishDurable(scenario.Within(t, 20*time.Second), bus.Durable{
			Subject: topology.IntentSubject(topology.VerbInstall, conn.Name(), id), Type: "application/json",
			Data: []byte(`{"install":{"agent":"beacon","image":{"version":"1.0.0"},"on":{"all":true}}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.Converges("1.0.0")
	w.Holds()
}
