package engine

import (
	"context"
	"testing"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// crash runs the document in an executor of its own that is killed with all agents at a point, as a machine is that a
// version takes down.
func (b *workbench) crash(point string) {
	b.t.Helper()
	cmd := child{
		Root: b.root, Shelf: b.shelf, Document: b.write(), KillAt: point, Trace: b.t.TempDir() + "/trace",
	}.start(b.t)
	died := make(chan struct{})
	go func() { _ = cmd.Wait(); close(died) }()
	b.t.Cleanup(func() { _ = cmd.Process.Kill(); <-died })
	b.eventually("the executor is killed at "+point, func() bool {
		select {
		case <-died:
			return true
		default:
			return false
		}
	})
	b.killAgents()
}

// settled offers the document and returns when the engine has taken it and begun what it may.
func (r *running) settled() {
	r.t.Helper()
	r.offer()
	r.eventually("the document is taken", func() bool {
		var applied uint64
		err := r.j.Read(func(tx *journal.Tx) error { applied = tx.Applied(); return nil })
		return err == nil && applied == r.doc.Generation
	})
	if err := r.Turn(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// idle asserts that no change is open.
func (r *running) idle(when string) {
	r.t.Helper()
	in, err := r.j.Inventory()
	if err != nil || len(in.Changes) > 0 {
		r.t.Fatalf("%s: %d changes are open (%v)", when, len(in.Changes), err)
	}
}

func TestAVersionThatTakesItsMachineDownIsRolledBackBeforeItStartsAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, point, what string
		how               []func(*imagev1.Manifest)
		first             bool // no version was there before
	}{
		{"an upgrade", "new started", "ready", nil, false},
		{"an upgrade beside the old version", "new started", "ready", beside, false},
		{"a first install", "new started", "ready", nil, true},
		{"a rehearsal", "begin rehearse", "ready", nil, false},
		{"a set-up", "begin prove", "setup", []func(*imagev1.Manifest){kind(agentv1.Kind_KIND_ONESHOT)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			if !c.first {
				r := b.run()
				outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready", c.how...))), good)
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
			}
			task := b.want(b.image("cn-agent", "2.0.0", c.what, c.how...))
			for range change.MaxCrashes {
				b.crash(c.point)
			}
			never := func(cfg *Config) {
				cfg.FailPoint = func(p string) {
					if p == c.point {
						t.Errorf("%s again", p)
					}
				}
			}
			r := b.run(never)
			if o := outcome(t, r.wait(task), undone); o.Code != code.CrashedExecutor {
				t.Errorf("outcome %v, want %s", o, code.CrashedExecutor)
			}
			asBefore := func(when string) {
				t.Helper()
				if r.idle(when); !c.first {
					r.good("cn-agent", "1.0.0")
				} else if found := r.the("cn-agent"); found != nil {
					t.Errorf("%s: %v is here", when, found)
				}
			}
			asBefore("after the rollback")
			// The dispatcher ended the task otherwise, so its document still wants the version.
			b.settleDocument()
			r.settled()
			asBefore("without a task")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			r = b.run(never)
			r.settled()
			asBefore("after a restart")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			r = b.run()
			outcome(t, r.do(b.want(b.doc.Entries[0].Image)), good)
		})
	}
}

func TestAStopOfTheExecutorIsNoCrashOfItsChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	task := b.want(b.image("cn-agent", "2.0.0", "ready", func(m *imagev1.Manifest) { m.Run.Ready.SoakMs = 2000 }))
	for range change.MaxCrashes + 1 {
		stop := make(chan struct{})
		r = b.run(func(cfg *Config) {
			cfg.FailPoint = func(p string) {
				if p == "new started" {
					close(stop)
				}
			}
		})
		r.offer()
		<-stop
		r.cancel() // the health check still goes on
		if err := r.stopped(); err != nil {
			t.Fatal(err)
		}
		_ = r.j.Close()
	}
	r = b.run()
	outcome(t, r.wait(task), good)
	r.good("cn-agent", "2.0.0")
}

func TestARequestDuringWhichTheExecutorEndsIsBegunABoundedNumberOfTimes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.doc.Generation++
	b.doc.Requests = []*desiredv1.Request{{TaskId: "scan", Scan: &serverv1.Scan{}}}
	r := b.run()
	for range change.MaxInterruptions {
		if _, err := r.scans.count("scan"); err != nil {
			t.Fatal(err)
		}
	}
	r.offer()
	if o := outcome(t, r.wait("scan"), taskv1.State_STATE_FAILED); o.Code != code.CrashedExecutor {
		t.Errorf("outcome %v, want %s", o, code.CrashedExecutor)
	}
	b.doc.Generation++
	b.doc.Requests = []*desiredv1.Request{{TaskId: "another", Scan: &serverv1.Scan{}}}
	r.offer()
	outcome(t, r.wait("another"), good)
}
