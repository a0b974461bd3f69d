package webhook

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

const onlyAgents = "    noun: agent\n"

func TestADeliveryIsTriedAgainInItsOrderWithItsID(t *testing.T) {
	w, in := newWorld(t), newTarget(t, status(500, 404, 503))
	w.routes(in.route("ops", onlyAgents))
	w.start()
	w.agent("a", "")
	w.agent("b", "")
	first := in.next()
	for range 3 {
		again := in.next()
		if again.header.Get("webhook-id") != first.header.Get("webhook-id") ||
			!strings.Contains(again.body, `"agent/a"`) {
			t.Errorf("the next request is %s, %v; want the first delivery again", again.body, again.header)
		}
	}
	if b := in.next(); !strings.Contains(b.body, `"agent/b"`) {
		t.Errorf("then %s, want the fact about b", b.body)
	}
	p := w.place("ops", "delivered both", func(p place) bool { return p.Delivered == 2 })
	if p.Failed != 3 || p.Error != "" || p.Dead != 0 || !p.FailingSince.IsZero() {
		t.Errorf("the place is %+v, want 3 failed attempts that are over", p)
	}
}

func TestAnAnswerAboutTheContentMakesADeadLetterThatCanBeSentAgain(t *testing.T) {
	w, in := newWorld(t), newTarget(t, status(400, 200, 422))
	w.routes(in.route("ops", onlyAgents))
	w.start()
	for _, name := range []string{"a", "b", "c", "d"} {
		w.agent(name, "")
		in.next()
	}
	w.place("ops", "has two dead letters", func(p place) bool { return p.Dead == 2 && p.Delivered == 2 })
	all, err := letters(w.dir, "ops")
	if err != nil || len(all) != 2 || all[0].Key != "a" || all[1].Key != "c" ||
		all[0].Reason != "HTTP 400 Bad Request" {
		t.Errorf("the dead letters are %+v, %v; want those of a and c", all, err)
	}
}

func TestAGoneTargetDisablesItsRouteUntilTheFileChanges(t *testing.T) {
	w, in := newWorld(t), newTarget(t, status(410))
	w.routes(in.route("ops", onlyAgents))
	stop := w.start()
	w.agent("a", "")
	in.next()
	w.place("ops", "is disabled", func(p place) bool { return p.DisabledBy != "" })
	w.agent("b", "")
	stop()
	w.start() // a restart enables nothing
	w.has(`garrison_webhook_state{route="ops",service="gateway",state="disabled"} 1`)
	select {
	case r := <-in.got:
		t.Errorf("a disabled route sent %s", r.body)
	default:
	}
	w.routes(in.route("ops", onlyAgents+"    actor: ann\n"))
	for _, want := range []string{`"agent/a"`, `"agent/b"`} {
		if got := in.next(); !strings.Contains(got.body, want) {
			t.Errorf("after the file changed: %s, want %s", got.body, want)
		}
	}
}

// has waits until a line is served as a metric.
func (w *world) has(line string) {
	w.Helper()
	polltest.Succeeds(w.T, line, func() error {
		rec := httptest.NewRecorder()
		metrics.Handler(w.metrics).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if !strings.Contains(rec.Body.String(), "\n"+line+"\n") {
			return fmt.Errorf("not among the metrics")
		}
		return nil
	})
}

func TestRetryAfterIsObeyedWithinABound(t *testing.T) {
	w := newWorld(t)
	var at []time.Time
	in := newTarget(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		at = append(at, time.Now())
		switch n {
		case 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	w.routes(in.route("ops", onlyAgents))
	w.start(func(p *pace) { p.longest = time.Second })
	w.agent("a", "")
	w.place("ops", "delivered it", func(p place) bool { return p.Delivered == 1 })
	for i := range 2 {
		if waited := at[i+1].Sub(at[i]); waited < time.Second {
			t.Errorf("attempt %d came after %s, want the second of Retry-After", i+2, waited)
		}
	}
}

func TestASlowTargetAndAnEndlessAnswerDelayNoOtherRoute(t *testing.T) {
	w, in := newWorld(t), newTarget(t, nil)
	release := make(chan struct{})
	slow := newTarget(t, func(_ http.ResponseWriter, q *http.Request, _ int) {
		select {
		case <-release:
		case <-q.Context().Done():
		}
	})
	endless := newTarget(t, func(w http.ResponseWriter, q *http.Request, _ int) {
		for q.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<16)); err != nil {
				return
			}
		}
	})
	w.routes(in.route("ops", onlyAgents) + slow.route("slow", onlyAgents) + endless.route("endless", onlyAgents))
	w.start()
	for i := range 20 {
		w.agent(fmt.Sprint("a", i), "")
		in.next()
		endless.next()
	}
	w.place("ops", "delivered all", func(p place) bool { return p.Delivered == 20 })
	w.place("endless", "delivered all", func(p place) bool { return p.Delivered == 20 })
	if len(slow.got) > 1 {
		t.Errorf("%d requests at the slow target, want the first alone", len(slow.got))
	}
	close(release)
	w.place("slow", "delivered all later", func(p place) bool { return p.Delivered == 20 })
}

func TestADeliveryIsGivenUpAfterItsTime(t *testing.T) {
	w, in := newWorld(t), newTarget(t, status(500, 500, 500, 500, 500, 500))
	w.routes(in.route("ops", onlyAgents))
	w.start(func(p *pace) { p.giveUp = 0 })
	w.agent("a", "")
	w.place("ops", "gave it up", func(p place) bool { return p.Dead == 1 })
	all, err := letters(w.dir, "ops")
	if err != nil || len(all) != 1 || all[0].Reason != "given up: HTTP 500 Internal Server Error" {
		t.Errorf("the dead letters are %+v, %v", all, err)
	}
	w.has(`garrison_webhook_deliveries_total{result="dead",route="ops",service="gateway"} 1`)
}

func TestADeliveryThatWaitedForThisProgramHasAllItsTime(t *testing.T) {
	day, stored := 24*time.Hour, time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var p place
	if got := p.deadline(stored, day); !got.Equal(stored.Add(day)) {
		t.Errorf("a target that did not fail before: %s", got)
	}
	p.failed(stored, stored.Add(48*time.Hour), "HTTP 500") // this program was away for two days
	p.failed(stored, stored.Add(49*time.Hour), "HTTP 500")
	if got := p.deadline(stored, day); !got.Equal(stored.Add(72 * time.Hour)) {
		t.Errorf("a target that fails since this program is back: until %s", got)
	}
	if later := stored.Add(60 * time.Hour); !p.deadline(later, day).Equal(later.Add(day)) {
		t.Errorf("a fact that was stored later has until %s", p.deadline(later, day))
	}
}

func TestARedirectIsNotFollowedAndNothingShowsTheAddress(t *testing.T) {
	w, other := newWorld(t), newTarget(t, nil)
	in := newTarget(t, func(w http.ResponseWriter, q *http.Request, n int) {
		if n <= 2 {
			http.Redirect(w, q, other.URL, http.StatusTemporaryRedirect)
		}
	})
	away := newTarget(t, nil)
	away.Close() // refuses connections
	w.routes(in.route("ops", onlyAgents) + away.route("away", onlyAgents))
	stop := w.start()
	w.agent("a", "")
	p := w.place("away", "failed", func(p place) bool { return p.Failed > 2 })
	w.place("ops", "delivered it at last", func(p place) bool { return p.Delivered == 1 })
	stop()
	if len(other.got) != 0 {
		t.Error("a redirect was followed")
	}
	listed, err := w.command(Command{})
	if err != nil || !strings.Contains(listed, "retrying") || !strings.Contains(p.Error, "refused") {
		t.Errorf("listed %s, %v; place %+v", listed, err, p)
	}
	for what, text := range map[string]string{"log": w.log.String(), "list": listed, "place": p.Error} {
		if strings.Contains(text, "secret-path") || text == "" {
			t.Errorf("the %s: %q", what, text)
		}
	}
	if _, err := w.command(Command{Test: "away"}); err == nil || strings.Contains(err.Error(), "secret-path") {
		t.Errorf("a test of a target that is away: %v", err)
	}
}

// command runs a command.
func (w *world) command(c Command) (string, error) {
	w.Helper()
	var out bytes.Buffer
	c.File, c.Dir, c.Out = w.file, w.dir, &out
	err := c.Run(w.Context())
	return out.String(), err
}

func TestALedgerThatWasSetBackIsReadFromWhereTheRouteWas(t *testing.T) {
	w, in := newWorld(t), newTarget(t, nil)
	w.agent("old", "")
	w.routes(in.route("ops", "    from: 1\n"))
	stop := w.start()
	in.next()
	p := w.place("ops", "delivered it", func(p place) bool { return p.Delivered == 1 })
	stop()
	w.agent("new", "")
	// The ledger of a backup: behind a fact that it has, the route delivered others that it lacks.
	p.Sequence, p.ID = p.Sequence+1, ident.New()
	if err := p.write(w.dir, "ops"); err != nil {
		t.Fatal(err)
	}
	w.start()
	if got := in.next(); !strings.Contains(got.body, `"agent/new"`) {
		t.Errorf("went on with %s", got.body)
	}
	p = w.place("ops", "shows the reset", func(p place) bool { return p.Resets == 1 && p.Delivered == 2 })
	if listed, err := w.command(Command{}); err != nil || !strings.Contains(listed, "reset") {
		t.Errorf("listed %s, %v", listed, err)
	}
}

func TestOneProcessAtATimeHasTheDirectory(t *testing.T) {
	w, in := newWorld(t), newTarget(t, nil)
	w.routes(in.route("ops", ""))
	stop := w.start()
	if _, err := New(Config{File: w.file, Dir: w.dir, Now: time.Now}); err == nil ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("a second process: %v", err)
	}
	stop()
	h, err := New(Config{File: w.file, Dir: w.dir, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	_ = h.Close()
}

func TestDeadLettersHaveABoundAndTheOldestGo(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		if err := bury(dir, "ops", letter{Sequence: i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(mostDead) {
		if err := os.WriteFile(letterFile(dir, "ops", 100+i), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := bury(dir, "ops", letter{Sequence: 99_999}); err != nil {
		t.Fatal(err)
	}
	files, err := letterFiles(dir, "ops")
	if err != nil || len(files) != mostDead || !strings.HasSuffix(files[len(files)-1], "99999.json") ||
		strings.HasSuffix(files[0], "00001.json") {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func TestAFileWithFaultsLeavesTheRoutesAsTheyAre(t *testing.T) {
	w, in := newWorld(t), newTarget(t, nil)
	w.routes(in.route("ops", onlyAgents))
	w.start()
	w.agent("a", "")
	in.next()
	w.routes("  - nme: ops\n")
	w.has(`garrison_webhook_state{route="",service="gateway",state="refused"} 1`)
	w.agent("b", "")
	if got := in.next(); !strings.Contains(got.body, `"agent/b"`) {
		t.Errorf("got %s", got.body)
	}
}

// A control plane that restarts by itself must not stay away because of its webhooks.
func TestAFileThatHasFaultsAtTheStartIsReadOnceItIsCorrected(t *testing.T) {
	w, in := newWorld(t), newTarget(t, nil)
	w.routes("  - nme: ops\n")
	stop := w.run()
	w.has(`garrison_webhook_state{route="",service="gateway",state="refused"} 1`)
	w.routes(in.route("ops", onlyAgents))
	w.place("ops", "has a place", func(place) bool { return true })
	w.agent("a", "")
	if got := in.next(); !strings.Contains(got.body, `"agent/a"`) {
		t.Errorf("got %s", got.body)
	}
	stop()
	if !strings.Contains(w.log.String(), "no key") {
		t.Errorf("the log has no fault: %s", w.log.String())
	}
}
