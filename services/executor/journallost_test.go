package executor_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// A journal that was lost must not let an executor tell or do what is not true. Each state
// of a server's life meets each way in which a journal is lost.

// life is a state of a server's life: how it is brought about, and what must come of it.
type life struct {
	before func(l *lost) // with an executor that runs, and then does not
	asks   func(l *lost) // what the document says by the time that one runs again; may be nil
	after  func(l *lost) // with one that runs again
}

// lost is a server whose journal is lost.
type lost struct {
	*host
	agent int    // its process, before
	task  string // which the document asks for
	ended chan error
	stops func()
	reads *bus.Conn
}

// install waits until the agent runs and its change has ended.
func (l *lost) install() (pid int) {
	l.t.Helper()
	pid = l.daemon()
	l.eventually("its change has ended", func() bool {
		_, err := os.Lstat(l.root.Changing("gz-tools"))
		s, e := status.Read(string(l.root))
		return err != nil && e == nil && s.Outbox == 0 && l.host.agent().Step == ""
	})
	return pid
}

func (l *lost) stopAll() { l.stops() }

var lives = map[string]life{
	"just enrolled": {func(*lost) {}, nil, func(l *lost) {
		l.state(status.Running, "")
		l.daemonOf("1.0.0")
	}},
	"agents run": {func(l *lost) { l.agent = l.install() }, func(l *lost) {
		// of an agent that it does not name it says nothing
		l.document(&desiredv1.Document{Life: serverv1.Life_LIFE_ALIVE})
	}, func(l *lost) {
		l.keeps()
		l.daemonOf("2.0.0") // and it is worked with
	}},
	"a change before its switch": {changeAt("begin stage"), nil, (*lost).changes},
	"a change in its switch":     {changeAt("linked"), nil, (*lost).changes},
	"a change being proven":      {changeAt("begin prove"), nil, (*lost).changes},
	"a change being committed":   {changeAt("recorded"), nil, (*lost).changes},
	"a change that is committed": {changeAt("begin sweep"), nil, (*lost).changes},
	"a removal waits": {func(l *lost) { l.agent = l.install() }, func(l *lost) {
		l.askRemoval(serverv1.Life_LIFE_ALIVE)
	}, (*lost).removes},
	"dying": {func(l *lost) { l.agent = l.install() }, func(l *lost) {
		l.askRemoval(serverv1.Life_LIFE_DYING)
	}, (*lost).removes},
	"dead, made by a person": {func(l *lost) { l.agent = l.install() }, func(l *lost) {
		l.dead(l.proof(l.who.ServerID))
	}, func(l *lost) {
		ends(l.t, l.ended)
		l.noAgent()
	}},
	"dead, made by a provisioner": {func(l *lost) {
		l.stopAll()
		l.who.Ownership = identity.Provisioned
		l.keep()
		l.start()
		l.agent = l.install()
	}, func(l *lost) {
		l.dead(l.proof(l.who.ServerID))
	}, func(l *lost) {
		l.state(status.Resting, "PROVISIONED")
		l.noAgent()
	}},
}

// changeAt stops the executor at a point of an upgrade.
func changeAt(point string) func(*lost) { return func(l *lost) { l.interrupt(point) } }

func (l *lost) interrupt(point string) {
	l.agent = l.install()
	l.stopAll()
	var once sync.Once
	begun := make(chan struct{})
	c := l.config()
	c.FailPoint = func(p string) {
		if p == point {
			once.Do(func() { <-begun; l.quit(); time.Sleep(50 * time.Millisecond) })
		}
	}
	l.ended, l.stops = l.run(c)
	l.upgrade("2.0.0", &imagev1.Run{Command: "run"})
	close(begun)
	ends(l.t, l.ended)
}

// keeps asserts that the agent of before runs on.
func (l *lost) keeps() {
	l.t.Helper()
	l.state(status.Running, "") // the executor of before left that it is stopped, with its agents
	now := 0
	l.eventually("the agent is known", func() bool { now = l.pid(); return now > 0 })
	if now != l.agent {
		l.t.Errorf("the agent was process %d and is %d", l.agent, now)
	}
}

// changes asserts that the change ends with one version, which runs alone.
func (l *lost) changes() {
	l.t.Helper()
	l.eventually("the change has ended", func() bool { return l.agentIs("2.0.0") })
	if n := len(l.processes()); n != 1 {
		l.t.Errorf("%d processes of the agent run, want one", n)
	}
}

func (l *lost) agentIs(version string) bool {
	a := l.host.agent()
	return a.Version == version && a.Pid > 0 && a.Step == ""
}

// removes waits for the removal of the agent, which succeeds when the agent is gone.
func (l *lost) removes() {
	l.t.Helper()
	l.eventually("the removal has ended", func() bool { return l.ends(l.task) != nil })
	if r := l.ends(l.task); r.GetState() != taskv1.State_STATE_SUCCEEDED {
		l.t.Errorf("the removal ended with %v", r)
	}
	l.noAgent()
}

func (l *lost) askRemoval(of serverv1.Life) {
	l.t.Helper()
	l.task = ident.New()
	l.document(&desiredv1.Document{
		Life:     of,
		Removals: []*desiredv1.Removal{{Agent: "gz-tools", InstanceId: "i", TaskId: l.task}},
	})
}

func (l *lost) noAgent() {
	l.t.Helper()
	if pids := l.processes(); len(pids) > 0 {
		l.t.Errorf("processes %v of the agent run", pids)
	}
	if _, err := os.Lstat(l.root.Current("gz-tools")); err == nil {
		l.t.Error("its link is there")
	}
}

// processes returns those of the agent, found without the executor, and leaves out their children: one that was just
// forked has the command line of its parent until it executes its own program.
func (h *host) processes() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if pid, err := strconv.Atoi(e.Name()); err == nil && strings.Contains(string(line), string(h.root.Images())) {
			pids = append(pids, pid)
		}
	}
	return slices.DeleteFunc(slices.Clone(pids), func(pid int) bool {
		s, ok := proctree.Read(pid)
		return ok && slices.Contains(pids, s.Parent)
	})
}

// reported returns the reports of a kind that the bus has stored.
func (l *lost) reported(kind string) (out []*reportv1.Report) {
	l.t.Helper()
	msgs, err := l.reads.DirectGetFrom(context.Background(), topology.Reports,
		topology.ReportSubject(l.who.Address(), kind), 1, 256)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, m := range msgs {
		r := &reportv1.Report{}
		if err := bus.Unmarshal(m, r); err != nil {
			l.t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// ends returns the report of a task's end, or nil.
func (l *lost) ends(task string) *reportv1.TaskReport {
	for _, r := range l.reported(topology.ReportTask) {
		if t := r.GetTask(); t.GetTaskId() == task && t.GetState() != taskv1.State_STATE_RUNNING {
			return t
		}
	}
	return nil
}

// enrolled returns a server that ran once, and its journal as it was then.
func enrolled(t *testing.T, g *bustest.Guarded) (*lost, map[string][]byte) {
	t.Helper()
	h := newHost(t, g, filepath.Join(t.TempDir(), "root"), identity.Manual)
	t.Cleanup(func() {
		for _, pid := range h.processes() {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
		_ = imagedir.RemoveTree(h.root.Images())
	})
	l := &lost{host: h, reads: g.Service(t, topology.UserProvision)}
	l.start()
	l.reportsArrive("")
	l.stopAll()
	early := map[string][]byte{}
	for _, path := range []string{h.root.Journal(), h.root.JournalMark()} {
		early[path] = contents(t, path)
	}
	return l, early
}

func (l *lost) start() { l.ended, l.stops = l.run(l.config()) }

// reportsArrive waits for a list of agents that another journal than before says.
func (l *lost) reportsArrive(not string) (journal string) {
	l.t.Helper()
	l.eventually("a report arrives", func() bool {
		for _, r := range l.reported(topology.ReportAgents) {
			if r.GetJournalId() != not {
				journal = r.GetJournalId()
			}
		}
		return journal != ""
	})
	return journal
}

func TestALostJournalMakesNothingUntrue(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	for state, is := range lives {
		for how, lose := range losses {
			t.Run(state+"/"+how, func(t *testing.T) {
				t.Parallel()
				l, early := enrolled(t, g)
				l.start()
				is.before(l)
				l.stopAll()
				was := l.reportsArrive("")
				lose(t, l.root, early)
				if is.asks != nil {
					is.asks(l)
				}
				l.start()
				// The journal of a server that was only enrolled was hardly set back, and holds no record to flip.
				same := state == "just enrolled" && (strings.HasPrefix(how, "set back") || how == "a flipped record")
				if !same && !strings.HasPrefix(state, "dead") {
					l.reportsArrive(was)
				}
				is.after(l)
			})
		}
	}
}

// What an executor of before there were records left cannot be built again: the agent is
// kept, nothing counts as removed, and nothing is uninstalled, until it is all explained.
func TestWhatCannotBeBuiltAgainIsNotTrusted(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	for how, lose := range losses {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l, early := enrolled(t, g)
			l.start()
			pid := l.install()
			l.stopAll()
			lose(t, l.root, early)
			remove(t, l.root.Installed("gz-tools"))
			if strings.HasPrefix(how, "set back with") {
				remove(t, l.root.Journal()) // nothing tells that one apart
			}
			l.askRemoval(serverv1.Life_LIFE_DYING)
			l.start()
			s := l.state(status.Suspended, "NO_INVENTORY")
			if s.Healthy(time.Now()) == nil || !strings.Contains(s.Reason, "agents/gz-tools/current") {
				t.Errorf("its health is %v, and it says %s", s.Healthy(time.Now()), s.Reason)
			}
			l.eventually("the removal has ended", func() bool { return l.ends(l.task) != nil })
			if r := l.ends(l.task); r.GetState() != taskv1.State_STATE_FAILED ||
				r.GetOutcome().GetCode() != "INVENTORY_UNTRUSTED" {
				t.Errorf("the removal ended with %v", r)
			}
			l.dead(l.proof(l.who.ServerID))
			time.Sleep(300 * time.Millisecond)
			l.state(status.Suspended, "NO_INVENTORY")
			l.stopAll()
			var out bytes.Buffer
			if err := executor.Remove(t.Context(), l.config(), executor.Removal{Out: &out}); err == nil ||
				!strings.Contains(err.Error(), "NO_INVENTORY") {
				t.Errorf("the uninstall ends with %v", err)
			}
			if got := l.processes(); len(got) != 1 || got[0] != pid {
				t.Errorf("processes %v run, want %d", got, pid)
			}
			l.start()
			if now := l.install(); now != pid { // an install takes the agent in
				t.Errorf("the agent was %d and is %d", pid, now)
			}
			l.state(status.Running, "")
		})
	}
}

// Damage that is met while running is no end, and no agent's end.
func TestAJournalThatIsDamagedWhileRunningIsBuiltAgain(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	for _, how := range []string{"deleted", "emptied", "cut"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l, early := enrolled(t, g)
			c := l.config()
			c.StopAgents = true
			l.ended, l.stops = l.run(c)
			l.agent = l.install()
			was := l.reportsArrive("")
			losses[how](t, l.root, early)
			l.reportsArrive(was)
			l.keeps()
			select {
			case err := <-l.ended:
				t.Errorf("it ended with %v", err)
			default:
			}
		})
	}
}
