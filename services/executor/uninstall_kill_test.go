package executor_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// doomed is an executor in a process of its own that kills itself at a point.
type doomed struct {
	Root  string
	Point string
	Nth   int // the how manieth time it comes there
}

const doomedVariable = "GARRISON_TEST_DOOMED"

// TestDoomed is that process, and passes over itself in any other.
func TestDoomed(t *testing.T) {
	t.Parallel()
	spec := os.Getenv(doomedVariable)
	if spec == "" {
		t.Skip("not a process of its own")
	}
	var d doomed
	if err := json.Unmarshal([]byte(spec), &d); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	err := executor.New(executor.Config{
		Root: d.Root, BeatInterval: 50 * time.Millisecond, PollInterval: 200 * time.Millisecond, Log: zerolog.Nop(),
		FailPoint: func(p string) {
			mu.Lock()
			defer mu.Unlock()
			if p != d.Point {
				return
			}
			if d.Nth--; d.Nth == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
	}).Run(context.Background())
	t.Fatalf("it was to be killed at %q and ended with %v", d.Point, err)
}

// slay runs the executor until it kills itself at a point.
func (h *host) slay(point string, nth int) {
	h.t.Helper()
	spec, err := json.Marshal(doomed{Root: string(h.root), Point: point, Nth: nth})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestDoomed$", "-test.v")
	cmd.Env = append(os.Environ(), doomedVariable+"="+string(spec))
	out, _ := cmd.CombinedOutput()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL || ctx.Err() != nil {
		h.t.Fatalf("it was to be killed at %q: %v: %s", point, cmd.ProcessState, out)
	}
}

// removal asks for the removal of the agent that daemon installed.
func (h *host) removal() *desiredv1.Document {
	return &desiredv1.Document{
		Life:     serverv1.Life_LIFE_DYING,
		Removals: []*desiredv1.Removal{{Agent: "gz-tools", InstanceId: "i", TaskId: ident.New()}},
	}
}

// steps returns the points that a life passes from the request to remove its agent until
// its death can be recorded, and from there until nothing is left.
func steps(t *testing.T, g *bustest.Guarded) (dying, dead []string) {
	h := newHost(t, g, filepath.Join(t.TempDir(), "root"), identity.Manual)
	var mu sync.Mutex
	var alive []string
	into := &alive
	c := h.config()
	c.FailPoint = func(p string) {
		mu.Lock()
		defer mu.Unlock()
		*into = append(*into, p)
	}
	turn := func(to *[]string) {
		mu.Lock()
		defer mu.Unlock()
		into = to
	}
	passed := func(steps *[]string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(*steps, "ended")
		}
	}
	ended, _ := h.run(c)
	h.daemon()
	h.eventually("the installation has ended", passed(&alive))
	turn(&dying)
	h.document(h.removal())
	h.eventually("the removal has ended", passed(&dying))
	h.eventually("the agent is removed", h.gone)
	turn(&dead)
	h.dead(h.proof(h.who.ServerID))
	ends(t, ended)
	return slices.Clone(dying), slices.Clone(dead)
}

// gone reports whether the executor no longer reports an agent, and has said so.
func (h *host) gone() bool {
	s, err := status.Read(string(h.root))
	return err == nil && s.Applied == h.newest && len(s.Agents) == 0 && s.Outbox == 0
}

// missing returns the files of an identity that are missing.
func (h *host) missing() (out []string) {
	for _, path := range []string{h.root.Key(), h.root.Identity(), h.root.Journal()} {
		if _, err := os.Stat(path); err != nil {
			out = append(out, path)
		}
	}
	return out
}

// Killed anywhere between the request to remove its last agent and the record of its
// death, the executor still is who it was.
func TestKilledBeforeItsDeathIsRecordedItKeepsItself(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	dying, _ := steps(t, g)
	if len(dying) < 4 {
		t.Fatalf("the removal passes %v", dying)
	}
	for _, point := range dying {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, g, filepath.Join(t.TempDir(), "root"), identity.Manual)
			_, stop := h.run(h.config())
			h.daemon()
			stop()
			h.document(h.removal())
			h.slay(point, 1)
			if m := h.missing(); len(m) > 0 || len(h.receipts()) > 0 {
				t.Fatalf("it lost %v and said %v before it was dead", m, h.receipts())
			}
			ended, _ := h.run(h.config())
			h.eventually("the agent is removed", h.gone)
			if m := h.missing(); len(m) > 0 {
				t.Fatalf("it lost %v before it was dead", m)
			}
			h.dead(h.proof(h.who.ServerID))
			ends(t, ended)
			if left := there(h); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// Killed at any step of the uninstall, the next start finishes it: with the bus away from
// where the mark is written.
func TestAnUninstallThatWasKilledIsFinishedByTheNextStart(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	_, dead := steps(t, g)
	marked := slices.Index(dead, "marked")
	if marked < 3 || len(dead) < marked+6 {
		t.Fatalf("the uninstall passes %v", dead)
	}
	for n, point := range dead {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, g, filepath.Join(t.TempDir(), "root"), identity.Manual)
			h.dead(h.proof(h.who.ServerID))
			h.slay(point, 1)
			c := h.config()
			if n >= marked {
				c.URL = "nats://127.0.0.1:1" // no bus is reachable, and none is needed
			} else if m := h.missing(); len(m) > 0 {
				t.Fatalf("%v went before the mark was written", m)
			}
			err := executor.New(c).Run(context.Background())
			if left := there(h); len(left) > 0 {
				t.Errorf("left: %v, with %v", left, err)
			}
			h.oneReceipt()
		})
	}
}
