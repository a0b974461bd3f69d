package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// host is a machine whose name a test changes, and counts who reads it.
type host struct {
	name  atomic.Pointer[string]
	reads atomic.Int64
}

func newHost(name string) *host {
	h := &host{}
	h.name.Store(&name)
	return h
}

func (h *host) read(context.Context) *serverv1.Sysinfo {
	h.reads.Add(1)
	return &serverv1.Sysinfo{Hostname: *h.name.Load()}
}

func (h *host) rename(name string) { h.name.Store(&name) }

// hosts returns the names that were reported, and by which request; a list that no request
// asked for takes the place of one that still waits.
func (r *running) hosts() (out []string) {
	for _, rep := range r.reports() {
		if s := rep.GetSysinfo(); s != nil {
			out = append(out, s.GetSysinfo().GetHostname()+s.GetTaskId())
		}
	}
	return out
}

// introduced waits until it was said what the machine is at the start.
func (r *running) introduced() {
	r.t.Helper()
	r.eventually("the machine is known", func() bool { return len(r.hosts()) > 0 })
}

func on(h *host, every, rest time.Duration) func(*Config) {
	return func(c *Config) { c.Sysinfo, c.LookEvery, c.LookRest = h.read, every, rest }
}

func TestAChangeOfTheMachineIsNoticedAndReportedOnce(t *testing.T) {
	t.Parallel()
	b, h := newBench(t), newHost("one")
	r := b.run(on(h, 10*time.Millisecond, time.Nanosecond))
	r.introduced()
	before := r.said()
	h.rename("two")
	r.eventually("it is reported", func() bool { return cmp.Equal(r.hosts(), []string{"two"}) })
	seen := h.reads.Load()
	r.eventually("it was looked at again", func() bool { return h.reads.Load() > seen+3 })
	if n := r.said() - before; n != 1 {
		t.Errorf("%d reports of one change", n)
	}
}

func TestAMachineThatChangesAllTheTimeIsReportedNowAndThen(t *testing.T) {
	t.Parallel()
	b, h := newBench(t), newHost("one")
	r := b.run(on(h, time.Millisecond, time.Hour))
	r.introduced()
	before := r.said()
	for n := range 20 {
		seen := h.reads.Load()
		h.rename(fmt.Sprint("host-", n))
		r.eventually("it was looked at", func() bool { return h.reads.Load() > seen+1 })
	}
	if n := r.said() - before; n != 1 {
		t.Errorf("%d reports within the hour", n)
	}
	b.doc.Generation++
	b.doc.Requests = []*desiredv1.Request{{TaskId: "asked"}}
	outcome(t, r.do("asked"), taskv1.State_STATE_SUCCEEDED)
	if hosts := r.hosts(); hosts[len(hosts)-1] != "host-19asked" {
		t.Errorf("the answer holds %v", hosts)
	}
}

func TestTheMachineIsLookedAtAfterTheLastOfTheTasks(t *testing.T) {
	t.Parallel()
	b, h := newBench(t), newHost("one")
	r := b.run(on(h, time.Hour, time.Nanosecond))
	r.introduced()
	h.rename("two")
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	r.eventually("it is reported", func() bool { return cmp.Equal(r.hosts(), []string{"two"}) })
	if n := h.reads.Load(); n != 2 {
		t.Errorf("it was read %d times, want once at the start and once after the task", n)
	}
}

func TestABurstOfRequestsIsOneLook(t *testing.T) {
	t.Parallel()
	b, h := newBench(t), newHost("one")
	r := b.run(on(h, time.Hour, time.Hour))
	r.introduced()
	b.doc.Generation++
	b.doc.Requests = []*desiredv1.Request{{TaskId: "a"}, {TaskId: "b"}, {TaskId: "c"}}
	r.offer()
	for _, id := range []string{"a", "b", "c"} {
		outcome(t, r.wait(id), taskv1.State_STATE_SUCCEEDED)
	}
	var have []string
	for _, rep := range r.reports() {
		switch body := rep.GetBody().(type) {
		case *reportv1.Report_Sysinfo:
			have = append(have, "sysinfo "+body.Sysinfo.GetTaskId())
		case *reportv1.Report_Agents:
			have = append(have, "agents "+body.Agents.GetTaskId())
		case *reportv1.Report_Task:
			have = append(have, "task "+body.Task.GetTaskId())
		}
	}
	want := []string{"agents ", "sysinfo ", "sysinfo c", "agents c", "task a", "task b", "task c"}
	if diff := cmp.Diff(want, have); diff != "" || h.reads.Load() != 2 {
		t.Errorf("%d readings, %s", h.reads.Load(), diff)
	}
}

// A reading that hangs, as on a disk that does not answer, keeps nothing waiting: no start,
// no task and no end, whether it is the first one or answers a request.
func TestAReadingThatHangsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hangs int64 // which reading
		asked bool
	}{
		"at the start":     {1, false},
		"later":            {2, false},
		"before a request": {1, true},
		"for a request":    {2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var reads atomic.Int64
			r := b.run(func(cfg *Config) {
				if cfg.LookEvery = time.Hour; !c.asked {
					cfg.LookEvery = time.Millisecond
				}
				cfg.Sysinfo = func(ctx context.Context) *serverv1.Sysinfo {
					if reads.Add(1) >= c.hangs {
						<-ctx.Done()
					}
					return &serverv1.Sysinfo{}
				}
			})
			<-r.Ready()
			if c.asked {
				if c.hangs > 1 {
					r.introduced()
				}
				b.doc.Requests = []*desiredv1.Request{{TaskId: "asked"}}
			} else {
				r.eventually("it hangs", func() bool { return reads.Load() == c.hangs })
			}
			outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
			if n := reads.Load(); n != c.hangs || r.endedTask("asked") != nil {
				t.Errorf("%d readings at once; the request ended: %v", n-c.hangs+1, r.endedTask("asked"))
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A request is answered by a look that began afterwards: one under way may be old.
func TestWhoAsksDuringAReadingIsAnsweredByTheNext(t *testing.T) {
	t.Parallel()
	b, h := newBench(t), newHost("one")
	began, goOn := make(chan struct{}, 9), make(chan struct{})
	r := b.run(on(h, time.Hour, time.Hour), func(c *Config) {
		c.Sysinfo = func(ctx context.Context) *serverv1.Sysinfo {
			s := h.read(ctx)
			began <- struct{}{}
			<-goOn
			return s
		}
	})
	<-began
	h.rename("two")
	b.doc.Generation++
	b.doc.Requests = []*desiredv1.Request{{TaskId: "asked"}}
	r.offer()
	r.eventually("it is taken", func() bool {
		s, err := r.Status()
		return err == nil && s.Applied == b.doc.Generation
	})
	if err := r.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	outcome(t, r.wait("asked"), taskv1.State_STATE_SUCCEEDED)
	hosts := r.hosts()
	if last := hosts[len(hosts)-1]; last != "twoasked" || h.reads.Load() != 2 {
		t.Errorf("the answer holds %v, after %d readings", hosts, h.reads.Load())
	}
}
