package simulation

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
)

// engine pretends to change a server. It implements link.Backend.
type engine struct {
	root     layout.Root
	name     string // of the host; unlike ids, it is the same in each run
	server   string
	boot     string
	machine  *serverv1.Sysinfo
	fault    Fault
	settings Settings
	seen     *Seen
	files    files
	progress func(*taskv1.Progress) // reports live where a task is

	offers chan *desiredv1.Document
	done   chan plan.Action // changes whose time has passed
	news   wakeup.Signal
	left   wakeup.Signal // a vanishing server goes away

	document *desiredv1.Document // only Run uses it
	owed     <-chan time.Time    // when a list is due in whose place the end of a change was reported; only Run uses it

	mu     sync.Mutex
	memory *memory
	busy   map[string]bool   // agents with a change under way
	hangs  map[string]string // of them those that never end by themselves, with the change
}

// newEngine returns the engine of the server with an identity under root.
func (f *Fleet) newEngine(root layout.Root, server string, m *memory) *engine {
	name := filepath.Base(string(root))
	return &engine{
		root: root, name: name, server: server, boot: f.boot, machine: f.machine(name),
		fault: f.cfg.Shares.of(f.cfg.Seed, name), settings: f.cfg.Settings, seen: &f.Seen, files: f.files,
		offers: make(chan *desiredv1.Document, 1), done: make(chan plan.Action), news: wakeup.New(),
		progress: func(*taskv1.Progress) {}, left: wakeup.New(), memory: m,
		busy: map[string]bool{}, hangs: map[string]string{},
	}
}

// Offer hands over a document. It never blocks: one that waits is replaced.
func (e *engine) Offer(d *desiredv1.Document) {
	for {
		select {
		case e.offers <- d:
			return
		default:
		}
		select {
		case <-e.offers:
		default:
		}
	}
}

// Waiting returns the oldest n reports that were not acknowledged.
func (e *engine) Waiting(n int) ([]link.Report, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []link.Report
	for _, w := range e.memory.Outbox[:min(n, len(e.memory.Outbox))] {
		out = append(out, w.Report)
	}
	return out, nil
}

// Acknowledge removes a report from the outbox. It is not written at once: a report that is sent again changes nothing.
func (e *engine) Acknowledge(sequence uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for n, w := range e.memory.Outbox {
		if w.Sequence == sequence {
			e.memory.Outbox = append(e.memory.Outbox[:n:n], e.memory.Outbox[n+1:]...)
			e.seen.Reports.Add(1)
			break
		}
	}
	if e.gone() {
		e.left.Wake()
	}
	return nil
}

// News returns a channel that receives when a report was added.
func (e *engine) News() <-chan struct{} { return e.news.C() }

// Beat returns the content of a beat.
func (e *engine) Beat() (link.Pulse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var sum instance.Sum
	for _, f := range e.memory.found() {
		sum.AddFound(f)
	}
	return link.Pulse{
		Place: e.memory.Position, Outbox: len(e.memory.Outbox), Reset: e.memory.Reset,
		State:  serverv1.ExecutorState_EXECUTOR_STATE_RUNNING,
		Agents: sum, Looked: time.Now(),
	}, nil
}

// run converges to the documents until ctx is done, or the server is dead.
func (e *engine) run(ctx context.Context) error {
	e.update(func(m *memory) { e.sayAgents(m, "") })
	for {
		var err error
		select {
		case <-ctx.Done():
			return e.save()
		case d := <-e.offers:
			e.take(ctx, d)
			err = e.save()
		case <-e.owed:
			e.owed = nil
			e.update(func(m *memory) { e.sayAgents(m, "") })
			err = e.save()
		case a := <-e.done:
			e.finish(a)
			err = e.save()
			e.converge(ctx)
		}
		if err != nil {
			return err
		}
		if e.document.GetLife() == serverv1.Life_LIFE_DEAD {
			return rungroup.ErrDone
		}
	}
}

// take makes a document the one to converge to, unless it does not continue the history of the one before.
func (e *engine) take(ctx context.Context, d *desiredv1.Document) {
	follows := false
	e.update(func(m *memory) {
		if follows = lineage.Codes[lineage.Compare(m.Position, d)] == ""; !follows {
			return
		}
		if is := lineage.Of(d); is != m.Position {
			m.Position = is
			e.seen.Documents.Add(1)
		}
		if len(m.Agents) == 0 && d.GetResetId() != "" {
			m.Reset = d.GetResetId()
		}
		m.Dead = d.GetLife() == serverv1.Life_LIFE_DEAD
	})
	if !follows {
		e.seen.Refused.Add(1)
		return
	}
	e.document = d
	if e.fault == Silent {
		return
	}
	e.unhang(d)
	e.answer(d)
	e.converge(ctx)
}

// converge begins what the plan of the executor says may begin now.
func (e *engine) converge(ctx context.Context) {
	if e.fault == Silent || e.document == nil {
		return
	}
	for _, a := range plan.Next(e.document, e.situation()) {
		e.begin(ctx, a)
	}
}

func (e *engine) situation() plan.Situation {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := plan.Situation{Have: map[string]plan.Have{}, Busy: map[string]bool{}}
	for name, a := range e.memory.Agents {
		s.Have[name] = plan.Have{InstanceID: a.InstanceID, ImageID: a.ImageID, Configuration: string(a.Configuration)}
	}
	for name := range e.busy {
		s.Busy[name] = true
	}
	s.Ended = func(id string) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		_, ok := e.memory.endOf(id)
		return ok
	}
	// Without a task, only a server that works brings about what its document says.
	s.Tried = func(a plan.Action) bool {
		return e.fault == Failing || e.fault == Misleading || e.fault == Hanging || e.fails(a)
	}
	s.Intact = func(string) bool { return true }
	return s
}

// update changes the memory and announces new reports.
func (e *engine) update(change func(*memory)) {
	e.mu.Lock()
	before := e.memory.Reports
	change(e.memory)
	news := e.memory.Reports != before
	e.mu.Unlock()
	if news {
		e.news.Wake()
	}
}

func (e *engine) save() error {
	return e.files.do(func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.memory.write(e.root)
	})
}

// report returns a report without a body.
func (e *engine) report() *reportv1.Report {
	return &reportv1.Report{ServerId: e.server, BootId: e.boot, At: timestamppb.Now()}
}

// sayAgents reports everything that is on the server.
func (e *engine) sayAgents(m *memory, taskID string) {
	r := e.report()
	r.Body = &reportv1.Report_Agents{Agents: &reportv1.AgentsReport{
		Agents: m.found(), TaskId: taskID,
		DocumentEpoch: max(m.Position.Epoch, 1), DocumentGeneration: m.Position.Generation,
	}}
	m.say(r, topology.ReportAgents, "")
}
