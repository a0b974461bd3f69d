package registry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// After a stall many intents about the same servers wait. They are decided one after the other, and do not all decide
// again each time that one of them holds: 150 of them lost 2,400 times.
func TestIntentsAboutTheSameServersLoseFewTimes(t *testing.T) {
	t.Parallel()
	const intents, losses = 150, 600
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	for n := range 3 {
		s.server(fmt.Sprintf("server-%d", n))
	}
	all := &intentv1.Selector{All: true}
	s.accepted("install", install("web", all))
	s.stop()
	var ids []string
	for n := range intents {
		ids = append(ids, s.publish("configure", configure("web", map[string]string{"n": strconv.Itoa(n)}, all)))
	}
	s.metrics = metrics.New().Under(ledger.Registry)
	s.registry()
	for _, id := range ids {
		s.outcome(id)
	}
	if lost := conflicts(t, s.metrics); lost > losses {
		t.Errorf("%d intents lost %d times to each other, want at most %d", intents, lost, losses)
	}
}

// conflicts returns how many decisions of a registry lost to another one.
func conflicts(t *testing.T, of *metrics.Set) int {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.Handler(of).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	line := regexp.MustCompile(`(?m)^garrison_appends_total\{result="conflict".*\} (\d+)$`)
	m := line.FindStringSubmatch(w.Body.String())
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
