package engine

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// In an overlap there is an agent with the socket at every instant, so that also a kill
// of the executor loses no connection.
func TestAnExecutorKilledInAnOverlapLosesNoConnection(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]operation{
		"upgrade": {version: "2.0.0", what: "serve", ends: taskv1.State_STATE_SUCCEEDED},
		"undo":    {version: "2.0.0", what: "crash", ends: taskv1.State_STATE_UNDONE},
	} {
		t.Run(name, func(t *testing.T) {
			for _, point := range o.socketPoints(t) {
				t.Run(strings.ReplaceAll(point, " ", "-"), func(t *testing.T) {
					t.Parallel()
					o.killWithSocket(t, point)
				})
			}
		})
	}
}

// withSocket installs a first version that listens at an address, and returns the task of the operation.
func (o operation) withSocket(b *workbench, at string, change ...func(*Config)) (r *running, task string) {
	r = b.run(change...)
	outcome(b.t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", listens(at), overlap))),
		taskv1.State_STATE_SUCCEEDED)
	return r, b.want(b.image("cn-agent", o.version, o.what, listens(at), overlap))
}

// socketPoints lists the points that the operation passes.
func (o operation) socketPoints(t *testing.T) []string {
	var mu sync.Mutex
	var points []string
	r, task := o.withSocket(newBench(t), freeAddress(t), func(c *Config) {
		c.FailPoint = func(p string) {
			mu.Lock()
			defer mu.Unlock()
			points = append(points, p)
		}
	})
	mu.Lock()
	points = nil // those of the install
	mu.Unlock()
	outcome(t, r.do(task), o.ends)
	mu.Lock()
	passed := slices.Clone(points) // one is still passed after the report
	mu.Unlock()
	// the next begin is the same
	passed = slices.DeleteFunc(passed, func(p string) bool { return strings.HasPrefix(p, "end ") })
	slices.Sort(passed)
	return slices.Compact(passed)
}

func (o operation) killWithSocket(t *testing.T, point string) {
	b, at := newBench(t), freeAddress(t)
	r, task := o.withSocket(b, at)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	stop := asking(at, time.Millisecond)
	c := child{Root: b.root, Shelf: b.shelf, Document: b.write(), KillAt: point}
	killed := c.start(t)
	if err := killed.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("it was not killed at %q: %v", point, err)
	}
	r = b.run()
	outcome(t, r.do(task), o.ends)
	r.eventually("it is watched again", func() bool { return r.the("cn-agent").GetPid() != 0 })
	if asked, wrong := stop(); len(wrong) > 0 || asked == 0 {
		t.Errorf("%d of %d went wrong, first %v", len(wrong), asked, wrong[:min(1, len(wrong))])
	}
	want := o.after("1.0.0")
	answers(t, at, want)
	if pid := r.good("cn-agent", want).GetPid(); !slices.Equal(b.pids(), []int{int(pid)}) {
		t.Errorf("processes %v, want %d only", b.pids(), pid)
	}
}
