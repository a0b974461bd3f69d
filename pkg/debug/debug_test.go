package debug_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// serve serves a state on a socket, and returns how to stop that.
func serve(t *testing.T, socket string, s *debug.State) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ends := make(chan error, 1)
	go func() { ends <- debug.Serve(ctx, socket, s) }()
	polltest.Eventually(t, "the socket answers", func() bool {
		_, err := debug.Get(t.Context(), socket, "/")
		return err == nil
	})
	stop = func() error { cancel(); return <-ends }
	t.Cleanup(cancel)
	return stop
}

func TestStateIsServedAsJSON(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "debug.sock")
	var s debug.State
	s.Set("rows", func() any { return []int{1, 2} })
	s.Set("message", func() any { return durationpb.New(2e9) })
	s.Set("broken", func() any { return errors.New("no rows") })
	s.Set("gone", func() any { return 1 })
	s.Set("gone", nil)
	serve(t, socket, &s)
	data, err := debug.Get(t.Context(), socket, "/state")
	var all map[string]any
	if err := errors.Join(err, json.Unmarshal(data, &all)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(all); got != "map[broken:map[error:no rows] message:2s rows:[1 2]]" {
		t.Errorf("got %s", got)
	}
	if data, err := debug.Get(
		t.Context(), socket, "/state/rows",
	); err != nil || strings.Join(strings.Fields(string(data)), "") != "[1,2]" {
		t.Errorf("one part: %s, %v", data, err)
	}
	if _, err := debug.Get(t.Context(), socket, "/state/gone"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a removed part: %v", err)
	}
	for path, want := range map[string]string{
		"/": "/state/rows", "/metrics": "/sched/goroutines:goroutines",
		"/debug/pprof/goroutine?debug=1": "goroutine profile",
	} {
		if data, err := debug.Get(t.Context(), socket, path); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %v, without %q: %.200s", path, err, want, data)
		}
	}
}

func TestOnlyItsUserMayOpenTheSocket(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "debug.sock")
	stop := serve(t, socket, nil)
	info, err := os.Stat(socket)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("Serve returned %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestALiveSocketIsAConflictAndADeadOneIsReplaced(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "debug.sock")
	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if err := debug.Serve(t.Context(), socket, nil); !fault.Is(err, fault.Conflict) {
		t.Errorf("beside a live one: %v", err)
	}
	killed.SetUnlinkOnClose(false)
	if err := killed.Close(); err != nil {
		t.Fatal(err)
	}
	serve(t, socket, nil)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := debug.Serve(t.Context(), file, nil); !fault.Is(err, fault.Conflict) {
		t.Errorf("in place of a file: %v", err)
	}
}

func ExampleServe() {
	dir, err := os.MkdirTemp("", "debug")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "debug.sock")
	var state debug.State
	state.Set("servers", func() any { return 3 })

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = debug.Serve(ctx, socket, &state) }()
	defer func() { cancel(); <-ended }()

	answer, err := debug.Get(ctx, socket, "/state/servers")
	for err != nil { // it does not listen yet
		answer, err = debug.Get(ctx, socket, "/state/servers")
	}
	fmt.Printf("%s", answer)
	// Output: 3
}
