package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/debug"
)

const (
	// readWithin bounds one reading of the gauges, and one round of the checks.
	readWithin = 5 * time.Second
	// sharedFor is how long the result of a round of checks answers further requests.
	sharedFor = time.Second
	// readersAtOnce bounds the readers of /metrics; a further one is refused.
	readersAtOnce = 4

	unixPrefix = "unix:"
)

// Usage is the help of the flag --metrics.
const Usage = "serve /metrics, /healthz and /readyz over HTTP at an `ADDRESS`: HOST:PORT, or unix:PATH for a socket " +
	"that only this user can open; without it nothing listens"

// Address takes the values of the flag --metrics.
func Address(text string) (string, error) {
	if path, ok := strings.CutPrefix(text, unixPrefix); ok {
		if path == "" {
			return "", errors.New("want unix:PATH")
		}
		return text, nil
	}
	if _, err := config.Address(text); err != nil {
		return "", errors.New("want HOST:PORT, such as 127.0.0.1:9464, or unix:PATH")
	}
	return text, nil
}

// Server serves a Set.
type Server struct {
	listener net.Listener
	socket   string // to be removed, or empty
	http     *http.Server
	ended    chan struct{}
}

// Start serves a Set at an address until Close. Without an address it serves nothing, and returns nil.
func Start(address string, s *Set, log zerolog.Logger) (*Server, error) {
	if address == "" {
		return nil, nil
	}
	out := &Server{ended: make(chan struct{})}
	var err error
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		out.socket = path
		out.listener, err = debug.Listen(path)
	} else {
		out.listener, err = net.Listen("tcp", address)
	}
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	out.http = &http.Server{
		Handler: Handler(s), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	go func() {
		defer close(out.ended)
		if err := out.http.Serve(out.listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error().Err(err).Msg("metrics not served")
		}
	}()
	log.Info().Str("listen", out.Address()).Msg("serving metrics")
	return out, nil
}

// Address returns the address that is served, with the port.
func (s *Server) Address() string {
	if s.socket != "" {
		return unixPrefix + s.socket
	}
	return s.listener.Addr().String()
}

// Close stops serving. It may be called for nil.
func (s *Server) Close() {
	if s == nil {
		return
	}
	_ = s.http.Close()
	<-s.ended
	if s.socket != "" {
		_ = os.Remove(s.socket)
	}
}

// Handler returns what is served.
func Handler(s *Set) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: readersAtOnce, ErrorHandling: promhttp.ContinueOnError,
	}))
	mux.HandleFunc("GET /healthz", s.checked(func() map[string]Check { return s.works }))
	mux.HandleFunc("GET /readyz", s.checked(func() map[string]Check { return s.ready }))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "/metrics\n/healthz\n/readyz\n")
	})
	return mux
}

// round is the last round of checks.
type round struct {
	mu    sync.Mutex // held during a round
	ended time.Time
	last  map[string]error
}

// results returns those of the last round, which a flood of requests shares: some checks call services, which answer
// a few calls at once.
func (r *round) results(check func() map[string]error) map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || time.Since(r.ended) >= sharedFor {
		r.last = check()
		r.ended = time.Now()
	}
	return r.last
}

// check runs checks side by side.
func (s *state) check(which func() map[string]Check) map[string]error {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	s.mu.Lock()
	checks := maps.Clone(which())
	s.mu.Unlock()
	results := make(map[string]error, len(checks))
	var mu sync.Mutex
	var all sync.WaitGroup
	for part, check := range checks {
		all.Go(func() {
			err := check(ctx)
			mu.Lock()
			defer mu.Unlock()
			results[part] = err
		})
	}
	all.Wait()
	return results
}

// checked answers with the result of checks, a line for each.
func (s *state) checked(which func() map[string]Check) http.HandlerFunc {
	var shared round
	return func(w http.ResponseWriter, _ *http.Request) {
		results := shared.results(func() map[string]error { return s.check(which) })
		status, text := http.StatusOK, "ok\n"
		var lines strings.Builder
		for _, part := range slices.Sorted(maps.Keys(results)) {
			if err := results[part]; err != nil {
				status, text = http.StatusServiceUnavailable, "not ok\n"
				fmt.Fprintf(&lines, "%s: %v\n", part, err)
			} else {
				fmt.Fprintf(&lines, "%s: ok\n", part)
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		fmt.Fprint(w, text, lines.String())
	}
}
