package observe

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
)

func TestAProcessIsRestartedForProbesWithoutAnAnswerUnlessItsImageSaysWhen(t *testing.T) {
	n := func(n uint32) *uint32 { return &n }
	for _, c := range []struct {
		inARow, silent int
		after          *uint32
		want           bool
	}{
		{3, 3, nil, false}, {4, 4, nil, true}, {100, 3, nil, false},
		{100, 100, n(0), false}, {1, 0, n(2), false}, {2, 0, n(2), true}, {4, 4, n(5), false},
	} {
		if is := (Failures{InARow: c.inARow, Silent: c.silent}).Due(c.after); is != c.want {
			t.Errorf("%+v: due %v", c, is)
		}
	}
}

func TestFailuresCountInARowAndOnlyOfOneProcessThatHadItsTime(t *testing.T) {
	silent := errors.New("connection refused")
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := &probed{}
	p := Probe{Pid: 7, StartedAt: start, Slow: time.Minute}
	for _, c := range []struct {
		after          time.Duration
		pid            int
		err            error
		inARow, silent int
	}{
		{time.Second, 7, silent, 0, 0}, // it may still start
		{2 * time.Minute, 7, silent, 1, 1},
		{3 * time.Minute, 7, silent, 2, 2},
		{4 * time.Minute, 0, silent, 0, 0}, // nothing runs, or a signal stopped it
		{5 * time.Minute, 7, silent, 1, 1},
		{6 * time.Minute, 8, silent, 1, 1},
		{7 * time.Minute, 8, nil, 0, 0},
		{8 * time.Minute, 8, silent, 1, 1},
	} {
		p.Pid = c.pid
		a.count(p, start.Add(c.after), c.err)
		if f := a.failures; f.InARow != c.inARow || f.Silent != c.silent {
			t.Errorf("after %s: %+v, want %d and %d", c.after, f, c.inARow, c.silent)
		}
	}
}

func TestAnAgentThatAnswersThatItIsUnwellIsNotSilent(t *testing.T) {
	unwell := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer unwell.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, c := range []struct {
		name   string
		s      healthcheck.Spec
		silent bool
	}{
		{"a status", healthcheck.Spec{HTTP: unwell.URL}, false},
		{"no connection", healthcheck.Spec{HTTP: gone.URL}, true},
		{"no connection by TCP", healthcheck.Spec{TCP: gone.Listener.Addr().String()}, true},
		{"an unknown name", healthcheck.Spec{HTTP: "http://nowhere.invalid:1/"}, false},
		{"an exit status", healthcheck.Spec{Exec: &healthcheck.Exec{Path: "/bin/false", Dir: "/"}}, false},
		{"a missing program", healthcheck.Spec{Exec: &healthcheck.Exec{Path: "/nowhere", Dir: "/"}}, false},
	} {
		err := c.s.Once(t.Context())
		if err == nil || healthcheck.Silent(err) != c.silent {
			t.Errorf("%s: %v is silent: %v", c.name, err, healthcheck.Silent(err))
		}
	}
}
