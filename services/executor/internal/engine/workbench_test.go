package engine

import (
	"context"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/polltest"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/metadata"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

const serverID = "0197b5a0-0000-7000-8000-000000000001"

// workbench is a root, a shelf of images, and the document as it stands.
type workbench struct {
	t           *testing.T
	root, shelf layout.Root
	doc         *desiredv1.Document
}

func newBench(t *testing.T) *workbench {
	t.Helper()
	b := &workbench{
		t:     t,
		root:  layout.Root(t.TempDir()),
		shelf: layout.Root(t.TempDir()),
		doc:   &desiredv1.Document{ServerId: serverID, Cell: "main", Life: serverv1.Life_LIFE_ALIVE},
	}
	t.Cleanup(b.endAgents)
	return b
}

// endAgents ends what a test left running, and unseals images so that the directory can go.
func (b *workbench) endAgents() {
	b.killAgents()
	if err := closeSystemd(b.root); err != nil {
		b.t.Error(err)
	}
	_ = filepath.WalkDir(string(b.root), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
}

// killAgents ends every agent as the end of the machine does.
func (b *workbench) killAgents() {
	if bySystemd() {
		if err := newSystemd(b.root, testPolicy).Clear(); err != nil { // which would start them again
			b.t.Error(err)
		}
	}
	killed := map[int]uint64{}
	for _, pid := range b.pids() {
		killed[pid], _ = proctree.StartTime(pid)
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	// A machine that is down runs nothing. The next executor would adopt an agent that is about to end.
	b.eventually("the agents have ended", func() bool {
		maps.DeleteFunc(killed, func(pid int, start uint64) bool {
			now, runs := proctree.StartTime(pid)
			return !runs || now != start
		})
		return len(killed) == 0
	})
}

// pids lists the processes that were started below the root.
func (b *workbench) pids() []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if err == nil && strings.HasPrefix(exe, string(b.root)+"/") {
			out = append(out, pid)
		}
	}
	return out
}

// readyWithin is how long a health check waits, in milliseconds, for an agent that may never say that it is ready.
const readyWithin = 2000

var (
	packing sync.Mutex
	packs   = map[string]imagetest.Image{}
)

// want puts an entry into the document, with a task, and returns the task's id.
func (b *workbench) want(m *imagev1.Manifest) string {
	b.doc.Generation++
	task := ident.From("task", m.GetAgent(), strconv.FormatUint(b.doc.Generation, 10))
	e := &desiredv1.Entry{
		Agent: m.GetAgent(), InstanceId: instanceOf(m.GetAgent()), Generation: b.doc.Generation, Image: m, TaskId: task,
		Verb: taskv1.Verb_VERB_INSTALL,
	}
	b.drop(m.GetAgent())
	b.doc.Entries = append(b.doc.Entries, e)
	return task
}

// wantWith puts an entry with metadata into the document.
func (b *workbench) wantWith(m *imagev1.Manifest, verb taskv1.Verb, values map[string]string) string {
	task := b.want(m)
	e := b.doc.Entries[len(b.doc.Entries)-1]
	e.Verb, e.Metadata, e.ConfigurationDigest = verb, values, metadata.Digest(values)
	return task
}

// unwant puts a removal into the document.
func (b *workbench) unwant(agent, instance string) string {
	b.doc.Generation++
	b.drop(agent)
	task := ident.From("remove", agent, strconv.FormatUint(b.doc.Generation, 10))
	b.doc.Removals = append(b.doc.Removals, &desiredv1.Removal{Agent: agent, InstanceId: instance, TaskId: task})
	return task
}

func (b *workbench) drop(agent string) {
	var keep []*desiredv1.Entry
	for _, e := range b.doc.Entries {
		if e.Agent != agent {
			keep = append(keep, e)
		}
	}
	b.doc.Entries = keep
}

// settleDocument takes the tasks out of the entries, as the dispatcher does when they have ended.
func (b *workbench) settleDocument() {
	b.doc.Generation++
	for _, e := range b.doc.Entries {
		e.TaskId, e.Verb = "", 0
	}
	b.doc.Removals = nil
}

func instanceOf(agent string) string { return ident.From("instance", agent) }

// running is an engine that runs in the test's process.
type running struct {
	*Engine
	*workbench
	j       *journal.Journal
	cancel  func() // only asks it to stop
	stop    func() error
	stopped func() error // waits until it ends by itself
}

// run starts an engine; it ends with the test, or with stop.
func (b *workbench) run(change ...func(*Config)) *running {
	b.t.Helper()
	if err := os.MkdirAll(b.root.Home(), 0o700); err != nil {
		b.t.Fatal(err)
	}
	j, err := journal.Open(b.root.Journal())
	if err != nil {
		b.t.Fatal(err)
	}
	cfg := testConfig(b.root, b.shelf, j, zerolog.New(zerolog.NewTestWriter(b.t)).Level(zerolog.ErrorLevel), nil)
	for _, f := range change {
		f(&cfg)
	}
	e := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stopped := false
	r := &running{Engine: e, workbench: b, j: j, cancel: cancel}
	r.stopped = func() error {
		stopped = true
		return <-done
	}
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		err := <-done
		_ = j.Close()
		return err
	}
	b.t.Cleanup(func() { _ = r.stop() })
	return r
}

// offer hands over a copy of the document as it stands.
func (r *running) offer() { r.Offer(proto.Clone(r.doc).(*desiredv1.Document)) }

// do offers the document and waits for the end of a task.
func (r *running) do(task string) *journal.Ended {
	r.t.Helper()
	r.offer()
	return r.wait(task)
}

func (r *running) wait(task string) *journal.Ended {
	r.t.Helper()
	var ended *journal.Ended
	r.eventually("the end of task "+task, func() bool {
		ended = r.endedTask(task)
		return ended != nil
	})
	return ended
}

func (r *running) endedTask(task string) (ended *journal.Ended) {
	r.t.Helper()
	if err := r.j.Read(func(tx *journal.Tx) (err error) { ended, err = tx.Ended(task); return err }); err != nil {
		r.t.Fatal(err)
	}
	return ended
}

func (b *workbench) eventually(what string, done func() bool) {
	b.t.Helper()
	polltest.Eventually(b.t, what, done)
}

// outcome asserts how a task ended, and returns what was said of it.
func outcome(t *testing.T, e *journal.Ended, want taskv1.State) *taskv1.Outcome {
	t.Helper()
	o, err := e.ReadOutcome()
	if err != nil {
		t.Fatal(err)
	}
	if e.State != want {
		t.Fatalf("ended as %s (%s: %s), want %s", e.State, o.GetCode(), o.GetReason(), want)
	}
	return o
}

// reports returns everything in the outbox.
func (r *running) reports() []*reportv1.Report {
	r.t.Helper()
	var out []*reportv1.Report
	err := r.j.Read(func(tx *journal.Tx) error {
		waiting, err := tx.Waiting(journal.MaxOutbox)
		for _, p := range waiting {
			rep := &reportv1.Report{}
			if err := proto.Unmarshal(p.Data, rep); err != nil {
				return err
			}
			out = append(out, rep)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// the returns what was found of an agent, or nil.
func (r *running) the(agent string) *reportv1.Found {
	r.t.Helper()
	found, err := r.rooms.observe.Found()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range found.GetAgents() {
		if f.Agent == agent {
			return f
		}
	}
	return nil
}

// good asserts that an agent runs a version, and returns what was found.
func (r *running) good(agent, version string) *reportv1.Found {
	r.t.Helper()
	f := r.the(agent)
	if f.GetImage().GetVersion() != version || f.GetHealth() != instancev1.Health_HEALTH_GOOD {
		r.t.Fatalf("%s is %v, want %s and good", agent, f, version)
	}
	return f
}

// left lists everything below the root but the executor's own files.
func (b *workbench) left() []string {
	var out []string
	_ = filepath.WalkDir(string(b.root), func(path string, _ os.DirEntry, err error) error {
		name := b.root.Relative(path)
		if name == "executor" {
			return filepath.SkipDir
		}
		if err == nil && strings.Contains(name, "/") {
			out = append(out, name)
		}
		return nil
	})
	return out
}

// acknowledgeAll empties the outbox.
func (r *running) acknowledgeAll() {
	r.t.Helper()
	for _, rep := range r.reports() {
		if err := r.j.Update(func(tx *journal.Tx) error { return tx.Acknowledge(rep.GetSequence()) }); err != nil {
			r.t.Fatal(err)
		}
	}
}

// spareBytes is what a change must leave free on the disk (package steps).
const spareBytes = 16 << 20

func hexOf(digest []byte) string { return hex.EncodeToString(digest) }

// versionOf returns the version of the image that a process runs from.
func (r *running) versionOf(pid int) string {
	mark, err := r.rooms.images.Mark(r.rooms.observe.ImageOf(pid))
	if err != nil {
		r.t.Error(err)
	}
	return mark.Version
}

// executes reports whether a process executes a file below the root.
func (b *workbench) executes(pid int) bool {
	exe, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	return strings.HasPrefix(exe, string(b.root)+"/")
}
