// Package debug serves the inside of a process to a person on the same machine: profiles, metrics
// and state as JSON, over HTTP on a unix socket.
//
//	GET /                  lists the paths
//	GET /state             returns all state as one JSON object
//	GET /state/NAME        returns one part of the state; some parts take a query
//	GET /metrics           returns the metrics of the Go runtime as JSON
//	GET /debug/pprof/...   returns profiles, as package net/http/pprof describes
//
// Guarantees:
//
//  1. Nothing listens unless a flag names a socket.
//  2. The socket has mode 0600 before the first connection: only the user of the process and root
//     can connect. There is no TCP listener.
//  3. Requests change nothing in the process, except that a profile costs time while it is taken.
//  4. A socket that a killed process left is replaced; a live one is a Conflict.
package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Usage is the help of the flag --debug-socket.
const Usage = "serve profiles, metrics and state as JSON on a unix `SOCKET` that only this user can open; " +
	"without it nothing listens"

// State holds functions that return parts of a process's state. It is safe for concurrent use, and
// the functions may run at any time. A nil State ignores Set, SetQuery and Under.
type State struct {
	mu    sync.Mutex
	parts map[string]func(url.Values) any

	whole  *State // the state that holds the parts, with prefix before their names; nil for itself
	prefix string
}

// Under returns a State whose parts are parts of s, named NAME.PART. Several services in one process
// each get one.
func (s *State) Under(name string) *State {
	if s == nil {
		return nil
	}
	return &State{whole: s, prefix: name + "."}
}

// Set sets the function that returns a part of the state: a value for encoding/json, a protobuf
// message, or an error. A nil function removes the part.
func (s *State) Set(name string, part func() any) {
	if part == nil {
		s.SetQuery(name, nil)
		return
	}
	s.SetQuery(name, func(url.Values) any { return part() })
}

// SetQuery is Set for a function that takes the query of the request. It returns an Invalid error for
// a query that it refuses.
func (s *State) SetQuery(name string, part func(query url.Values) any) {
	if s == nil {
		return
	}
	if s.whole != nil {
		s.whole.SetQuery(s.prefix+name, part)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts == nil {
		s.parts = map[string]func(url.Values) any{}
	}
	if s.parts[name] = part; part == nil {
		delete(s.parts, name)
	}
}

// all returns a copy of the parts.
func (s *State) all() map[string]func(url.Values) any {
	if s == nil {
		return nil
	}
	if s.whole != nil {
		return s.whole.all()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.parts)
}

// Serve serves the state on a unix socket until ctx ends. An error is a Conflict while another
// process listens on the socket.
func Serve(ctx context.Context, socket string, s *State) error {
	l, err := Listen(socket)
	if err != nil {
		return fmt.Errorf("debug socket: %w", err)
	}
	defer func() { _ = os.Remove(socket) }()
	server := &http.Server{Handler: handler(s), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("debug socket: %w", err)
	}
	return ctx.Err()
}

// Start serves the state in the background until stop is called, which blocks until the socket is
// gone. Without a socket it does nothing. It only logs an error: a debug socket never ends a process.
func Start(ctx context.Context, socket string, s *State, log zerolog.Logger) (stop func()) {
	if socket == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := Serve(ctx, socket, s); ctx.Err() == nil {
			log.Error().Err(err).Msg("debug socket not served")
		}
	}()
	return func() { cancel(); <-ended }
}

// Listen listens on a unix socket that only this user can open: it has its mode before it has its name. It replaces a
// socket that a killed process left; a live one is a Conflict. The caller removes the socket.
func Listen(socket string) (net.Listener, error) {
	if conn, err := net.Dial("unix", socket); err == nil {
		_ = conn.Close()
		return nil, fault.New(fault.Conflict, "another process listens on %s", socket)
	}
	if info, err := os.Lstat(socket); err == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil, fault.New(fault.Conflict, "%s is not a socket", socket)
	}
	dir, err := os.MkdirTemp(filepath.Dir(socket), ".debug-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	made := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, socket)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func handler(s *State) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range slices.Sorted(maps.Keys(s.all())) {
			fmt.Fprintln(w, "/state/"+name)
		}
		fmt.Fprint(w, "/state\n/metrics\n/debug/pprof/\n")
	})
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, r *http.Request) {
		all := map[string]json.RawMessage{}
		for name, part := range s.all() {
			all[name] = encode(part(r.URL.Query()))
		}
		writeJSON(w, all)
	})
	mux.HandleFunc("GET /state/{name}", func(w http.ResponseWriter, r *http.Request) {
		part, ok := s.all()[r.PathValue("name")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		value := part(r.URL.Query())
		if err, ok := value.(error); ok && fault.Is(err, fault.Invalid) {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		writeJSON(w, encode(value))
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, runtimeMetrics()) })
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// encode returns a part of the state as JSON; one that has none as an object with its error.
func encode(part any) json.RawMessage {
	var data []byte
	var err error
	switch p := part.(type) {
	case error:
		err = p
	case proto.Message:
		data, err = protojson.Marshal(p)
	default:
		data, err = json.Marshal(p)
	}
	if err != nil {
		data, _ = json.Marshal(map[string]string{"error": err.Error()}) // strings always encode
	}
	return data
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the client left
}

// runtimeMetrics returns the metrics of the Go runtime that are numbers.
func runtimeMetrics() map[string]any {
	var samples []metrics.Sample
	for _, d := range metrics.All() {
		if d.Kind != metrics.KindFloat64Histogram {
			samples = append(samples, metrics.Sample{Name: d.Name})
		}
	}
	metrics.Read(samples)
	all := map[string]any{}
	for _, s := range samples {
		switch s.Value.Kind() {
		case metrics.KindUint64:
			all[s.Name] = s.Value.Uint64()
		case metrics.KindFloat64:
			if f := s.Value.Float64(); !math.IsInf(f, 0) && !math.IsNaN(f) {
				all[s.Name] = f
			}
		}
	}
	return all
}

// Get returns what a process serves at a path of its debug socket, for example "/state". An error is
// NotFound for an unknown path, Invalid for a query that the process refuses, and Unavailable where no
// process listens.
func Get(ctx context.Context, socket, path string) ([]byte, error) {
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://debug"+path, nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "path %q: %w", path, err)
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "read %s of %s: %w", path, socket, err)
	}
	defer func() { _ = answer.Body.Close() }()
	switch answer.StatusCode {
	case http.StatusOK:
		return io.ReadAll(answer.Body)
	case http.StatusNotFound:
		return nil, fault.New(fault.NotFound, "%s serves no %s", socket, path)
	case http.StatusBadRequest:
		why, err := io.ReadAll(answer.Body)
		if err != nil {
			return nil, fault.New(fault.Unavailable, "read %s of %s: %w", path, socket, err)
		}
		return nil, fault.New(fault.Invalid, "%s", strings.TrimSpace(string(why)))
	}
	return nil, fault.New(fault.Internal, "%s answers %s with %s", socket, path, answer.Status)
}
