package metrics_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/metrics"
)

var update = flag.Bool("update", false, "write the table of the page")

const page = "../../deploy/docs/metrics.md"

// get returns the status and the text of a path.
func get(t *testing.T, s *metrics.Set, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.Handler(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestWhatIsMeasuredIsServedWithItsLabels(t *testing.T) {
	s := metrics.New()
	registry := s.Under("registry")
	registry.Gauge(metrics.QueueDepth, func(context.Context) []metrics.Sample {
		return metrics.By(map[string]int{"appends": 1})
	})
	registry.Gauge(metrics.QueueDepth, func(context.Context) []metrics.Sample { // of the next start
		return metrics.By(map[string]int{"appends": 2, "rechecks": 3})
	})
	registry.Add(metrics.Appends, 4, "stored")
	registry.Time(metrics.AppendSeconds, 0.002)
	s.Gauge(metrics.ExecutorOutbox, func(context.Context) []metrics.Sample { return metrics.One(5) })
	s.Gauge(metrics.ExecutorBus, func(context.Context) []metrics.Sample { return metrics.One(1) })
	s.Gauge(metrics.ExecutorBus, nil)
	_, text := get(t, s, "/metrics")
	for _, want := range []string{
		`garrison_queue_depth{queue="appends",service="registry"} 2`,
		`garrison_queue_depth{queue="rechecks",service="registry"} 3`,
		`garrison_appends_total{result="stored",service="registry"} 4`,
		`garrison_append_seconds_bucket{service="registry",le="0.0025"} 1`,
		`garrison_executor_outbox_reports 5`, `garrison_build_info{version="`, "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("without %s", want)
		}
	}
	if strings.Contains(text, metrics.ExecutorBus+" ") {
		t.Error("a gauge that was removed is served")
	}
}

func TestAProcessIsReadyWhenEachPartIs(t *testing.T) {
	s := metrics.New()
	var trouble error
	s.Under("registry").Ready("view", func(context.Context) error { return trouble })
	s.Ready("listener", func(context.Context) error { return nil })
	const ready = "ok\nlistener: ok\nregistry view: ok\n"
	if status, text := get(t, s, "/readyz"); status != http.StatusOK || text != ready {
		t.Errorf("%d: %s", status, text)
	}
	trouble = errors.New("replays the ledger, at 7")
	status, text := get(t, s, "/readyz")
	want := "not ok\nlistener: ok\nregistry view: replays the ledger, at 7\n"
	if status != http.StatusServiceUnavailable || text != want {
		t.Errorf("%d: %s", status, text)
	}
	if status, text := get(t, s, "/healthz"); status != http.StatusOK || text != "ok\n" {
		t.Errorf("a process that is not ready works: %d: %s", status, text)
	}
	s.Works("services", func(context.Context) error { return errors.New("registry does not answer") })
	if status, _ := get(t, s, "/healthz"); status != http.StatusServiceUnavailable {
		t.Errorf("a process that does not work: %d", status)
	}
}

func TestAFloodOfRequestsSharesTheChecks(t *testing.T) {
	s, calls := metrics.New(), 0
	began := time.Now()
	s.Works("services", func(ctx context.Context) error { calls++; return ctx.Err() })
	h := metrics.Handler(s)
	gone, cancel := context.WithCancel(t.Context())
	// A reader that left does not fail the checks for the others.
	cancel()
	// There is at most one round in each second.
	rounds := func() int { return 1 + int(time.Since(began)/time.Second) }
	const flood = 200
	for range flood {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodGet, "/healthz", nil))
		if w.Code != http.StatusOK {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
	}
	if calls < 1 || calls > rounds() {
		t.Errorf("%d requests led to %d rounds of checks, want %d at most", flood, calls, rounds())
	}
}

func TestASetThatIsMissingMeasuresNothing(t *testing.T) {
	var s *metrics.Set
	s.Under("registry").Add(metrics.Appends, 1, "stored")
	s.Time(metrics.AppendSeconds, 1)
	s.Gauge(metrics.BusFree, nil)
	s.Ready("bus", nil)
	s.Works("bus", nil)
	if served, err := metrics.Start("", s, zerolog.Nop()); served != nil || err != nil {
		t.Errorf("without an address: %v, %v", served, err)
	}
}

func TestItIsServedOnAnAddressAndOnASocketOfThisUserAlone(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	for _, address := range []string{"127.0.0.1:0", "unix:" + socket} {
		s, err := metrics.Start(address, metrics.New(), zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		network, at := "tcp", s.Address()
		if path, ok := strings.CutPrefix(at, "unix:"); ok {
			network, at = "unix", path
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the socket is %v, %v", info, err)
			}
		}
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, at)
		}
		c := http.Client{Transport: &http.Transport{DialContext: dial}}
		r, err := c.Get("http://process/healthz")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		if err != nil || string(text) != "ok\n" {
			t.Errorf("%s answers %s, %v", address, text, err)
		}
		_ = r.Body.Close()
		s.Close()
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestAddressesThatCannotBeMeantAreRefused(t *testing.T) {
	for address, fits := range map[string]bool{
		"127.0.0.1:9464": true, ":9464": true, "unix:/run/m": true, "unix:": false, "9464": false, "host:x": false,
	} {
		if _, err := metrics.Address(address); (err == nil) != fits {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// table returns the table of the page.
func table() string {
	var b strings.Builder
	b.WriteString("| metric | kind | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range metrics.All {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, ", "), m.Help)
	}
	return b.String()
}

// With -update it writes the table.
func TestThePageListsEachMetric(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), "| metric |")
	_, tail, ended := strings.Cut(rest, "|\n\n")
	if !found || !ended {
		t.Fatalf("%s has no table", page)
	}
	want := head + table() + "\n" + tail
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s does not list the metrics that there are; run go test ./pkg/metrics -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
