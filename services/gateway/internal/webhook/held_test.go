package webhook

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
)

// A place that cannot be read is not the place of a new route, which begins at the end of the ledger.
func TestARouteWhosePlaceCannotBeReadSendsNothingUntilItCan(t *testing.T) {
	for name, damage := range map[string]func(file string) error{
		"a mode that is too wide": func(file string) error { return os.Chmod(file, 0o644) },
		"no content":              func(file string) error { return os.WriteFile(file, nil, 0o600) },
		"another document":        func(file string) error { return os.WriteFile(file, []byte("null"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			w, in := newWorld(t), newTarget(t, nil)
			w.routes(in.route("ops", onlyAgents))
			w.start()()
			file := placeFile(w.dir, "ops")
			kept, err := os.ReadFile(file)
			if err == nil {
				err = damage(file)
			}
			if err != nil {
				t.Fatal(err)
			}
			w.agent("a", "")
			w.run()
			w.has(`garrison_webhook_state{route="ops",service="gateway",state="cut-off"} 1`)
			if out, err := w.command(Command{}); err != nil || !strings.Contains(out, "the place of webhook ops") {
				t.Errorf("the list is %q, %v; want it with the fault", out, err)
			}
			if err := errors.Join(os.WriteFile(file, kept, 0o600), os.Chmod(file, 0o600)); err != nil {
				t.Fatal(err)
			}
			if got := in.next(); !strings.Contains(got.body, `"agent/a"`) {
				t.Errorf("then %s, want the fact that waited", got.body)
			}
		})
	}
}

func TestARefusedFileIsUsedOnceItIsCured(t *testing.T) {
	w, in := newWorld(t), newTarget(t, nil)
	w.routes(in.route("ops", onlyAgents))
	if err := os.Chmod(w.file, 0o644); err != nil {
		t.Fatal(err)
	}
	w.run()
	w.has(`garrison_webhook_state{route="",service="gateway",state="refused"} 1`)
	if err := os.Chmod(w.file, 0o600); err != nil {
		t.Fatal(err)
	}
	w.place("ops", "begins", func(place) bool { return true })
	if err := os.Rename(w.file, w.file+".gone"); err != nil {
		t.Fatal(err)
	}
	w.has(`garrison_webhook_state{route="",service="gateway",state="refused"} 1`)
	w.agent("a", "")
	in.next() // the routes run on
}

func TestDamagedKeysHoldTheFactsBackAndNotTheStart(t *testing.T) {
	w, in := newWorld(t), newTarget(t, nil)
	w.routes(in.route("ops", onlyAgents))
	w.start()()
	if err := os.WriteFile(keyFile(w.dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.agent("a", "")
	w.run(func(p *pace) { p.giveUp = time.Millisecond })
	w.has(`garrison_webhook_state{route="ops",service="gateway",state="cut-off"} 1`)
	if err := os.Remove(keyFile(w.dir)); err != nil {
		t.Fatal(err)
	}
	if got := in.next(); !strings.Contains(got.body, `"agent/a"`) {
		t.Errorf("then %s, want the fact that waited", got.body)
	}
}

func TestALetterThatItsTargetRefusesKeepsNoOtherBack(t *testing.T) {
	w, in := newWorld(t), newTarget(t, status(400, 400, 400))
	w.routes(in.route("ops", onlyAgents))
	w.start()
	for _, name := range []string{"a", "b"} {
		w.agent(name, "")
		in.next()
	}
	w.place("ops", "has two dead letters", func(p place) bool { return p.Dead == 2 })
	out, err := w.resend("ops")
	if !errors.Is(err, errHopeless) {
		t.Errorf("%q, %v; want %v", out, err, errHopeless)
	}
	if left, err := letters(w.dir, "ops"); err != nil || len(left) != 1 || left[0].Key != "a" {
		t.Errorf("left are %+v, %v; want that of a", left, err)
	}
}

// resend sends the dead letters of a route again, over the bus of the world.
func (w *world) resend(name string) (string, error) {
	w.Helper()
	var out bytes.Buffer
	s, err := readFile(w.file)
	if err != nil {
		w.Fatal(err)
	}
	c := Command{File: w.file, Dir: w.dir, Out: &out}
	err = c.resendAll(w.Context(), client.New(w.bus.Dial(w.T, "resend"), 0), s, s.named(name))
	return out.String(), err
}
