package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// publish publishes an intent by hand, as any NATS client can: JSON, told by the content type.
func (w *world) publish(json, verb string) string {
	w.t.Helper()
	id := ident.New()
	conn := w.operator()
	_, err := conn.PublishDurable(within(w.t, 20*time.Second), bus.Durable{
		Subject: topology.IntentSubject(verb, conn.Name(), id), ID: id, Type: "application/json", Data: []byte(json),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Acknowledged(id)
	return id
}

func TestAnIntentPublishedByHandIsDecided(t *testing.T) {
	w := newWorld(t, fleet.Options{}, "alpha")
	good := w.publish(`{"install":{"agent":"beacon","image":{"version":"1.0.0"},"on":{"servers":["alpha"]}}}`, topology.VerbInstall)
	w.converges("1.0.0")
	w.ok("intent", "show", good)
	for name, c := range map[string]struct{ json, verb, code string }{
		"not JSON at all":            {`{`, topology.VerbInstall, "MALFORMED"},
		"a field that is none":       {`{"instal":{}}`, topology.VerbInstall, "MALFORMED"},
		"another verb than it says":  {`{"remove":{"agent":"beacon","on":{"all":true}}}`, topology.VerbInstall, "MALFORMED"},
		"nothing selected":           {`{"install":{"agent":"beacon"}}`, topology.VerbInstall, "EMPTY_SELECTOR"},
		"an agent that is not there": {`{"install":{"agent":"becon","on":{"all":true}}}`, topology.VerbInstall, "UNKNOWN_AGENT"},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			id := w.publish(c.json, c.verb)
			w.eventually("it is refused", func() error {
				_, err := w.CLI(t.Context(), "intent", "show", id)
				return err
			})
			if out := w.ok("intent", "show", id, "-o", "json"); !strings.Contains(out, c.code) {
				t.Errorf("want code %s in: %s", c.code, out)
			}
		})
	}
	w.t = t
	w.holds()
}

func TestTheSameIntentPublishedTwiceIsDecidedOnce(t *testing.T) {
	w := newWorld(t, fleet.Options{}, "alpha")
	conn := w.operator()
	id := ident.New()
	w.Acknowledged(id)
	for _, messageID := range []string{"first", "second"} { // so that only the registry can tell that it is the same
		_, err := conn.PublishDurable(within(t, 20*time.Second), bus.Durable{
			Subject: topology.IntentSubject(topology.VerbInstall, conn.Name(), id), ID: messageID, Type: "application/json",
			Data: []byte(`{"install":{"agent":"beacon","image":{"version":"1.0.0"},"on":{"all":true}}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.converges("1.0.0")
	w.holds()
}
