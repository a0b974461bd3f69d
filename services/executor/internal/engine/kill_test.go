package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// scenario is a change that is killed at each of its points.
type scenario struct {
	name  string
	first bool                           // nothing is installed before
	next  func(*workbench) (task string) // puts the change into the document
	state taskv1.State                   // how it ends, killed or not
	want  string                         // the version that runs then, or empty for none
}

var scenarios = []scenario{
	{"install", true, func(b *workbench) string { return b.want(b.image("cn-agent", "1.0.0", "ready")) }, taskv1.State_STATE_SUCCEEDED, "1.0.0"},
	{"failing install", true, func(b *workbench) string { return b.want(b.image("cn-agent", "1.0.0", "crash")) }, taskv1.State_STATE_UNDONE, ""},
	{"upgrade with restart", false, func(b *workbench) string { return b.want(b.image("cn-agent", "2.0.0", "ready")) }, taskv1.State_STATE_SUCCEEDED, "2.0.0"},
	{"upgrade with overlap", false, func(b *workbench) string { return b.want(b.image("cn-agent", "2.0.0", "ready", overlap)) }, taskv1.State_STATE_SUCCEEDED, "2.0.0"},
	{"failing upgrade with restart", false, func(b *workbench) string { return b.want(b.image("cn-agent", "2.0.0", "crash")) }, taskv1.State_STATE_UNDONE, "1.0.0"},
	{"failing upgrade with overlap", false, func(b *workbench) string { return b.want(b.image("cn-agent", "2.0.0", "crash", overlap)) }, taskv1.State_STATE_UNDONE, "1.0.0"},
	{"removal", false, func(b *workbench) string { return b.unwant("cn-agent", instanceOf("cn-agent")) }, taskv1.State_STATE_SUCCEEDED, ""},
}

func TestAnExecutorKilledAnywhereEndsWithOneWholeVersionAndOneReport(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			points := s.points(t)
			if len(points) < 8 {
				t.Fatalf("only %d points: %v", len(points), points)
			}
			for _, point := range points {
				if testing.Short() && strings.HasPrefix(point, "end ") {
					continue // on the disk nearly the same as the begin of the next step
				}
				t.Run(strings.ReplaceAll(point, " ", "-"), func(t *testing.T) {
					t.Parallel()
					s.killAt(t, point)
				})
			}
		})
	}
}

// points runs the scenario once, and lists the points that it passes.
func (s scenario) points(t *testing.T) []string {
	b := newBench(t)
	var mu sync.Mutex
	var points []string
	s.before(b)
	r := b.run(func(c *Config) {
		c.FailPoint = func(p string) {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(points, p) {
				points = append(points, p)
			}
		}
	})
	outcome(t, r.do(s.next(b)), s.state)
	mu.Lock()
	defer mu.Unlock()
	return points
}

// before brings the server to where the scenario starts.
func (s scenario) before(b *workbench) {
	if s.first {
		return
	}
	r := b.run()
	outcome(b.t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	r.acknowledgeAll()
	if err := r.stop(); err != nil {
		b.t.Fatal(err)
	}
}

func (s scenario) killAt(t *testing.T, point string) {
	b := newBench(t)
	s.before(b)
	task := s.next(b)
	c := child{Root: b.root, Shelf: b.shelf, Document: b.write(), KillAt: point}
	if !c.run(t) {
		t.Fatalf("it was not killed at %q", point)
	}
	c.KillAt, c.Until = "", task
	if c.run(t) {
		t.Fatal("it was killed again")
	}
	r := b.run()
	outcome(t, r.wait(task), s.state)
	s.check(t, r, task)
}

// check looks whether there is one whole version and nothing else.
func (s scenario) check(t *testing.T, r *running, task string) {
	ends := 0
	for _, rep := range r.reports() {
		if rep.GetTask().GetTaskId() == task && rep.GetTask().GetState() != taskv1.State_STATE_RUNNING {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("the end was reported %d times", ends)
	}
	if s.want == "" {
		if left, pids := r.left(), r.pids(); len(left)+len(pids) != 0 {
			t.Errorf("left: %v, processes %v", left, pids)
		}
		return
	}
	var f *reportv1.Found
	r.eventually("it runs", func() bool { f = r.the("cn-agent"); return f.GetPid() != 0 })
	r.good("cn-agent", s.want)
	if pids := r.pids(); !slices.Equal(pids, []int{int(f.GetPid())}) {
		t.Errorf("processes %v, want %d only", pids, f.GetPid())
	}
	for dir, most := range map[string]int{r.root.Images(): 1, r.root.Cache(): 0} {
		if entries, _ := os.ReadDir(dir); len(entries) > most {
			t.Errorf("%s has %d entries", dir, len(entries))
		}
	}
	if left, _ := filepath.Glob(filepath.Join(r.root.Run("cn-agent"), "notify-*")); len(left) > 0 {
		t.Errorf("sockets are left: %v", left)
	}
}

// write keeps the document in a file, for an executor in another process.
func (b *workbench) write() string {
	b.t.Helper()
	data, err := proto.Marshal(b.doc)
	if err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(b.t.TempDir(), "document")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

func TestAgentsSurviveAKilledExecutorAndAreTakenOver(t *testing.T) {
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	pid := r.good("cn-agent", "1.0.0").GetPid()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	cmd := child{Root: b.root, Shelf: b.shelf}.start(t)
	b.eventually("the executor runs", func() bool {
		_, err := os.Stat(b.root.Journal())
		return err == nil
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	r = b.run()
	r.eventually("it is taken over", func() bool { return r.the("cn-agent").GetPid() == pid })
}

func TestAnInterruptedChangeIsFinishedWithTheBusAway(t *testing.T) {
	b := newBench(t)
	s := scenarios[2]
	s.before(b)
	task := s.next(b)
	if !(child{Root: b.root, Shelf: b.shelf, Document: b.write(), KillAt: "new started"}).run(t) {
		t.Fatal("it was not killed")
	}
	if (child{Root: b.root, Shelf: b.shelf, Until: task}).run(t) {
		t.Fatal("it was killed again")
	}
	s.check(t, b.run(), task)
}

func TestAgentsThatDiedWithTheMachineAreStartedWithTheBusAway(t *testing.T) {
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready", func(m *imagev1.Manifest) { m.Run.Ready.Probe = nil })))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range b.pids() {
		p, _ := os.FindProcess(pid)
		_ = p.Kill()
	}
	b.eventually("nothing runs", func() bool { return len(b.pids()) == 0 })
	r = b.run()
	r.eventually("it runs", func() bool { return r.the("cn-agent").GetPid() != 0 })
}

func TestStopAgentsEndsThemWithTheExecutor(t *testing.T) {
	b := newBench(t)
	r := b.run(func(c *Config) { c.StopAgents = true })
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if pids := b.pids(); len(pids) != 0 {
		t.Errorf("still running: %v", pids)
	}
}
