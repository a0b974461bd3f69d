package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/polltest"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/powercut"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/tally"
)

// life is one server that runs the operations, interrupted one after another.
type life struct {
	*workbench
	disk   *powercut.Disk // nil when only the process is killed
	stand  *stand         // the bus to fetch from; nil for the shelf
	images map[string]*imagev1.Manifest
	have   string // the installed version, or ""
	tmp    string
	at     string   // the address of the sockets
	inode  uint64   // of the open socket, or 0
	came   int      // how many chunks were fetched at the kill
	lost   []string // complaints of the fetch after a kill

	crashed bool // the change was interrupted too often, and was rolled back
}

// kill is the instant at which an executor is killed: at a point, or some time after it began.
type kill struct {
	point string
	after time.Duration
	again bool // also in the recovery
	each  bool // also in each start of the executor after it, until the change is given up
}

func (k kill) String() string {
	switch {
	case k.each:
		return fmt.Sprintf("killed at %s, %d times", k.point, change.MaxCrashes)
	case k.point != "":
		return "killed at " + k.point
	case k.after != 0:
		return fmt.Sprintf("killed after %s (again %v)", k.after, k.again)
	}
	return "not killed"
}

// result is the outcome of an interruption.
type result struct {
	step string // in which it was interrupted
	now  string // the installed version after the restart
	had  string
	bad  []string
}

func (r result) outcome() tally.Outcome {
	switch {
	case len(r.bad) > 0:
		return tally.Bad
	case r.now == r.had:
		return tally.Old
	}
	return tally.New
}

// rehearsal describes an operation without an interruption.
type rehearsal struct {
	points []string
	span   time.Duration
}

func newLife(t *testing.T, of []operation) *life {
	t.Helper()
	l := &life{workbench: newBench(t), images: map[string]*imagev1.Manifest{}, tmp: t.TempDir(), at: ownAddress(t)}
	for _, o := range of {
		if o.version == "" {
			continue
		}
		how := append(slices.Clone(o.how), func(m *imagev1.Manifest) { m.Run.Ready.SoakMs = 20 })
		if o.socket {
			how = append(how, listens(l.at))
		}
		l.images[o.agent+o.version] = l.image(o.agent, plainOf(o.version), o.what, how...)
	}
	return l
}

// on moves a life to a disk whose power can be cut.
func (l *life) on(d *powercut.Disk) *life {
	l.disk, l.root = d, layout.Root(filepath.Join(d.Mount, "root"))
	d.Before = l.endAll
	return l
}

// endAll ends every agent of this life, as a power cut does.
func (l *life) endAll() {
	l.killAgents()
	for {
		pids := l.pids()
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// next writes an operation into the document.
func (l *life) next(o operation) (task string) {
	l.settleDocument()
	l.doc.Entries = nil
	if l.have != "" { // the document drops a version that was rolled back
		l.bring(o.agent, l.have)
		l.settleDocument()
	}
	if o.name == repairing {
		l.damage(l.images[o.agent+o.version])
	}
	if o.version == "" {
		return l.unwant(o.agent, instanceOf(o.agent))
	}
	return l.bring(o.agent, o.version)
}

// rehearse runs an operation without an interruption.
func (l *life) rehearse(o operation) rehearsal {
	l.t.Helper()
	var mu sync.Mutex
	var dry rehearsal
	task := l.next(o)
	began := time.Now()
	s, err := l.open(func(p string) {
		mu.Lock()
		defer mu.Unlock()
		if p != "recovered" && !slices.Contains(dry.points, p) {
			dry.points = append(dry.points, p)
		}
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if err := errors.Join(s.finish(task), s.close()); err != nil {
		l.t.Fatal(err)
	}
	l.have = o.after(l.have)
	dry.span = time.Since(began)
	return dry
}

// do runs an operation and interrupts it, restarts without the bus and checks, restarts again, offers the document, and
// checks the end.
func (l *life) do(o operation, k kill) (res result) {
	res = result{step: "start", had: l.have, now: l.have}
	task := l.next(o)
	defer l.connecting(o)(&res)
	if k != (kill{}) {
		var err error
		if res.step, err = l.interrupt(k, task); err != nil {
			res.bad = append(res.bad, err.Error())
			return res
		}
	}
	seen, bad := l.away(o, task, &res)
	if k.each && res.now != res.had {
		bad = append(bad, fmt.Sprintf("version %q after %s, want the old %q", res.now, k, res.had))
	}
	if res.bad = bad; len(bad) > 0 {
		return res
	}
	res.bad = append(l.back(o, task, seen), l.lost...)
	l.have, l.came, l.lost = o.after(l.have), 0, nil
	return res
}

// away restarts the executor without the bus, and checks the recovery.
func (l *life) away(o operation, task string, res *result) (seen string, bad []string) {
	s, err := l.open(nil)
	if err != nil {
		return "", []string{"restart: " + err.Error()}
	}
	res.now, bad = l.look(s, o, task)
	if res.now != res.had && res.now != o.version {
		bad = append(bad, fmt.Sprintf("version %q, neither the old %q nor the new %q", res.now, res.had, o.version))
	}
	seen = l.everything(s)
	if err := s.close(); err != nil {
		bad = append(bad, "stop: "+err.Error())
	}
	return seen, bad
}

// back restarts it again, which must change nothing, and lets it finish the document.
func (l *life) back(o operation, task, seen string) (bad []string) {
	s, err := l.open(nil)
	if err != nil {
		return []string{"second restart: " + err.Error()}
	}
	if now := l.everything(s); now != seen {
		bad = append(bad, "the second restart changed something:\n"+seen+"---\n"+now)
	}
	if err := s.finish(task); err != nil {
		return append(bad, errors.Join(err, s.close()).Error())
	}
	now, more := l.look(s, o, task)
	if bad = append(bad, more...); l.crashed && o.ends == good { // an operator asks again
		task, l.crashed, l.came = l.next(o), false, 0 // its chunks went with the change
		if err := s.finish(task); err != nil {
			return append(bad, errors.Join(err, s.close()).Error())
		}
		now, more = l.look(s, o, task)
		bad = append(bad, more...)
	}
	if want := o.after(l.have); now != want {
		bad = append(bad, fmt.Sprintf("in the end version %q, want %q", now, want))
	}
	if err := errors.Join(s.forget(), s.close()); err != nil {
		bad = append(bad, err.Error())
	}
	return bad
}

// interrupt runs the document in an executor process of its own and kills it, perhaps also the one that recovers. It
// returns the step in which the first one was killed.
func (l *life) interrupt(k kill, task string) (step string, err error) {
	trace := filepath.Join(l.tmp, "trace")
	_ = os.Remove(trace)
	c := child{Root: l.root, Shelf: l.shelf, Document: l.write(), KillAt: k.point, Trace: trace}
	if l.stand != nil {
		c.Bus = &l.stand.login
	}
	if err := l.slay(c, k.after); err != nil {
		return "start", err
	}
	for n := 1; k.each && n < change.MaxCrashes; n++ {
		if err := l.slay(c, 0); err != nil {
			return "start", err
		}
	}
	data, err := os.ReadFile(trace)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "start", err
	}
	passed := strings.Split(string(data), "\n")
	step, l.came = stepOf(passed), chunksOf(passed)
	if err := l.trueAtDeath(task, step); err != nil || !k.again {
		return step, err
	}
	c.Document, c.KillAt = "", ""
	return step, l.slay(c, time.Duration(rand.Int64N(int64(100*time.Millisecond))))
}

// slay starts an executor and waits until it killed itself, or kills it some time after it began.
func (l *life) slay(c child, after time.Duration) error {
	spec, err := json.Marshal(c)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(spec))
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	limit := after
	if c.KillAt != "" {
		limit = 30 * time.Second
	}
	guard := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	if guard.Stop() == (c.KillAt == "") || err != nil || line != "go\n" {
		return fmt.Errorf("the executor was to be killed at %q after %s, but ended with %v: %s", c.KillAt, after,
			cmd.ProcessState, said.String())
	}
	if l.disk != nil {
		l.inode = 0 // no process held it through the cut
		return l.disk.Cut()
	}
	return nil
}

// session is an executor in the test's process.
type session struct {
	*running
	ended  func() error
	failed chan error
}

// open starts an executor without a document, and returns when it has recovered.
func (l *life) open(failPoint func(string)) (*session, error) {
	if err := os.MkdirAll(l.root.Home(), 0o700); err != nil {
		return nil, err
	}
	j, err := journal.Open(l.root.Journal())
	if err != nil {
		return nil, err
	}
	recovered := make(chan struct{})
	cfg := testConfig(l.root, l.shelf, j, zerolog.Nop(), func(p string) {
		if p == "recovered" {
			close(recovered)
		}
		if failPoint != nil {
			failPoint(p)
		}
	})
	cfg.Keep = crashKeep
	if l.stand != nil {
		cfg.Fetcher = again{newChunkwise(l.stand.conn, l.root, cfg.FailPoint), l}
	}
	e := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() { failed <- e.Run(ctx) }()
	s := &session{running: &running{Engine: e, workbench: l.workbench, j: j}, failed: failed}
	s.ended = func() error { cancel(); return errors.Join(<-failed, j.Close()) }
	select {
	case <-recovered:
		return s, nil
	case err := <-failed:
		cancel()
		return nil, errors.Join(errors.New("it ended"), err, j.Close())
	case <-time.After(time.Minute):
		return nil, errors.Join(errors.New("it did not recover within a minute"), s.close())
	}
}

func (s *session) close() error { return s.ended() }

// finish offers the document and waits for the task's end.
func (s *session) finish(task string) error {
	s.Offer(proto.Clone(s.doc).(*desiredv1.Document))
	if !polltest.Within(polltest.Limit, func() bool { return s.endedTask(task) != nil }) {
		return fmt.Errorf("task %s did not end within %s", task, polltest.Limit)
	}
	return nil
}

// forget empties the outbox, as acknowledgements do.
func (s *session) forget() error {
	return s.j.Update(func(tx *journal.Tx) error {
		waiting, err := tx.Waiting(journal.MaxOutbox)
		for _, w := range waiting {
			err = errors.Join(err, tx.Acknowledge(w.Sequence))
		}
		return err
	})
}
