package view_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

var web2 = &imagev1.Ref{Id: "web2", Version: "2.0.0", Digest: []byte("d")}

// tries is a view of so many servers on which web 2.0.0 is tried.
func tries(servers int) *rolled {
	r := &rolled{View: view.New()}
	for n := range servers {
		id := fmt.Sprint("s", n)
		r.fold(ledger.Server, id, &serverv1.Invited{Name: id, Cell: "main"})
		sysinfo := &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}}
		r.fold(ledger.Server, id, &serverv1.Enrolled{Sysinfo: sysinfo})
		r.fold(ledger.Instance, id+".web", &instancev1.Wanted{InstanceId: "n" + id, Generation: 1, Image: web2})
	}
	return r
}

// try folds a task that brings web 2.0.0 to a server, with its end.
func (r *rolled) try(server string, end proto.Message) {
	task := fmt.Sprint("t", r.last)
	r.fold(ledger.Task, task, &taskv1.Queued{
		ServerId: server, Agent: "web", InstanceId: "n" + server, Generation: 1, Attempt: 1, To: web2,
	})
	r.fold(ledger.Task, task, &taskv1.Assigned{})
	r.fold(ledger.Task, task, &taskv1.Started{})
	r.fold(ledger.Task, task, end)
}

func (r *rolled) failedOn() (out []string) {
	for _, s := range r.Suspects() {
		out = append(out, s.ServerIds...)
	}
	return out
}

func undone(step taskv1.Step, why string) *taskv1.Undone {
	return &taskv1.Undone{Outcome: &taskv1.Outcome{FailedStep: step, Code: why, Reason: "x"}}
}

func TestOnlyWhatABuildIsToBlameForCounts(t *testing.T) {
	proved := undone(taskv1.Step_STEP_PROVE, code.NotReady)
	observed := func(health instancev1.Health, why string) *instancev1.Observed {
		return &instancev1.Observed{InstanceId: "ns0", Generation: 1, Image: web2, Health: health, Code: why}
	}
	for name, c := range map[string]struct {
		happens func(r *rolled)
		want    int
	}{
		"a failed health check":     {func(r *rolled) { r.try("s0", proved) }, 1},
		"one twice on one server":   {func(r *rolled) { r.try("s0", proved); r.try("s0", proved) }, 1},
		"one on each of two":        {func(r *rolled) { r.try("s0", proved); r.try("s1", proved) }, 2},
		"one that works in the end": {func(r *rolled) { r.try("s0", proved); r.try("s0", &taskv1.Succeeded{}) }, 0},
		"a failed download": {
			func(r *rolled) { r.try("s0", undone(taskv1.Step_STEP_FETCH, code.NotReady)) }, 0,
		},
		"a full disk": {
			func(r *rolled) { r.try("s0", undone(taskv1.Step_STEP_SWITCH, code.NoSpace)) }, 0,
		},
		"a failed adoption": {func(r *rolled) {
			r.fold(ledger.Task, "a", &taskv1.Queued{
				Verb: taskv1.Verb_VERB_ADOPT, ServerId: "s0", Agent: "web", InstanceId: "ns0", Generation: 1,
				Attempt: 1, To: web2,
			})
			r.fold(ledger.Task, "a", &taskv1.Assigned{})
			r.fold(ledger.Task, "a", &taskv1.Started{})
			r.fold(ledger.Task, "a", proved)
		}, 0},
		"what the old version had too": {
			func(r *rolled) { r.try("s0", undone(taskv1.Step_STEP_PROVE, code.BadAsBefore)) }, 0,
		},
		"an executor that does not start": {
			func(r *rolled) { r.try("s0", undone(taskv1.Step_STEP_COMMIT, code.NotStarted)) }, 1,
		},
		"a disk that fails at the end": {
			func(r *rolled) { r.try("s0", undone(taskv1.Step_STEP_COMMIT, code.NoSpace)) }, 0,
		},
		"a crash soon after the change": {func(r *rolled) {
			r.try("s0", &taskv1.Succeeded{})
			r.fold(ledger.Instance, "s0.web", observed(bad, code.CrashLoop))
		}, 1},
		"a crash before the task's end": {func(r *rolled) {
			r.fold(ledger.Instance, "s0.web", observed(bad, code.CrashLoop))
			r.try("s0", &taskv1.Succeeded{})
		}, 1},
		"a process that ended once": {func(r *rolled) {
			r.try("s0", &taskv1.Succeeded{})
			r.fold(ledger.Instance, "s0.web", observed(bad, code.NotRunning))
			r.fold(ledger.Instance, "s0.web", observed(good, ""))
		}, 0},
		"the old version after the undo": {func(r *rolled) {
			r.try("s0", proved)
			r.fold(ledger.Instance, "s0.web", observed(good, ""))
		}, 1},
		"damage on the disk": {func(r *rolled) {
			r.try("s0", &taskv1.Succeeded{})
			r.fold(ledger.Instance, "s0.web", observed(bad, code.Damaged))
		}, 0},
		"a crash long after the change": {func(r *rolled) {
			r.try("s0", &taskv1.Succeeded{})
			r.last += uint64(time.Hour / time.Second)
			r.fold(ledger.Instance, "s0.web", observed(bad, code.CrashLoop))
		}, 0},
	} {
		r := tries(2)
		if c.happens(r); len(r.failedOn()) != c.want {
			t.Errorf("%s counts %v; want %d servers", name, r.failedOn(), c.want)
		}
	}
}

// Servers move on after a failure, and the decision about it may come later.
func TestAFailureCountsWhereTheBuildWorkedWhenItFailed(t *testing.T) {
	r := tries(6)
	runs := func(server string, image *imagev1.Ref) {
		id := "n" + server
		r.fold(ledger.Instance, server+".web", &instancev1.Observed{
			InstanceId: id, Generation: 1, Image: image, Health: good,
		})
	}
	for n := range 5 {
		runs(fmt.Sprint("s", n+1), web2)
	}
	r.try("s0", undone(taskv1.Step_STEP_PROVE, code.NotReady))
	for n := range 4 {
		runs(fmt.Sprint("s", n+2), &imagev1.Ref{Id: "web3", Version: "3.0.0", Digest: []byte("e")})
	}
	for _, s := range r.Suspects() {
		if s.Failing != 1 || s.Working != 5 {
			t.Errorf("fails on %d, works on %d; want 1 and 5", s.Failing, s.Working)
		}
	}
	r.try("s2", undone(taskv1.Step_STEP_PROVE, code.NotReady))
	for _, s := range r.Suspects() {
		if s.Failing != 2 || s.Working != 1 {
			t.Errorf("after the next failure it fails on %d, works on %d; want 2 and 1", s.Failing, s.Working)
		}
	}
}

func TestARolloutThatUndoesAnotherOneBlamesNothing(t *testing.T) {
	for undoes, want := range map[string]int{"": 1, "u": 0} {
		r := tries(1)
		r.fold(ledger.Rollout, "r", &rolloutv1.Planned{Undoes: undoes, Waves: []uint32{1}, Part: 1, Parts: 1})
		r.fold(ledger.Intent, "i", &intentv1.Accepted{Intent: upgrade("web"), Changed: 1, ServerIds: []string{"s0"}})
		r.fold(ledger.Task, "t", &taskv1.Queued{
			ServerId: "s0", Agent: "web", InstanceId: "ns0", Generation: 1, Attempt: 1, To: web2, IntentId: "i",
		})
		r.fold(ledger.Task, "t", &taskv1.Assigned{})
		r.fold(ledger.Task, "t", &taskv1.Started{})
		r.fold(ledger.Task, "t", undone(taskv1.Step_STEP_PROVE, code.NotReady))
		if have := r.failedOn(); len(have) != want {
			t.Errorf("a rollout that undoes %q: %v count; want %d servers", undoes, have, want)
		}
	}
}

// A server that was silent halts its rollout before it reports what failed there.
func TestWhatABrokenServerReportsAfterItsRolloutHaltedCountsForTheHalt(t *testing.T) {
	r := changing(t)
	r.fold(ledger.Rollout, "r", &rolloutv1.Silenced{ServerIds: []string{"s"}})
	r.fold(ledger.Rollout, "r", &rolloutv1.Halted{Reason: &apiv1.Refusal{Code: code.TooManyBroken}})
	r.fold(ledger.Task, "t", undone(taskv1.Step_STEP_PROVE, code.NotReady))
	have := map[string][]string{}
	for _, s := range r.Suspects() {
		have[s.RolloutId] = s.ServerIds
	}
	if diff := cmp.Diff(map[string][]string{"r": {"s"}}, have); diff != "" {
		t.Errorf("servers on which a build failed, by the rollout that it halted (-want +have):\n%s", diff)
	}
}

func TestABlockEndsTheCountAndItsLiftBeginsItAnew(t *testing.T) {
	r := tries(2)
	proved := undone(taskv1.Step_STEP_PROVE, code.NotReady)
	build := block.OfImage("web", web2, &serverv1.Platform{Os: "linux", Arch: "amd64"})
	r.try("s0", proved)
	r.fold(ledger.Block, block.ID(build), &blockv1.Block{Build: build, Reason: "x"})
	r.try("s1", proved)
	if _, blocked := r.Block(block.ID(build)); !blocked || len(r.failedOn()) > 0 {
		t.Errorf("blocked is %v, and %v count", blocked, r.failedOn())
	}
	r.fold(ledger.Block, block.ID(build), &blockv1.Lifted{})
	r.try("s1", proved)
	if have := r.failedOn(); !slices.Equal(have, []string{"s1"}) {
		t.Errorf("after the lift %v count", have)
	}
}

// The ends of tasks on different servers are recorded in any order.
func TestTheOrderInWhichServersFailMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "servers")
		ends := map[string]proto.Message{}
		var servers []string
		for i := range n {
			id := fmt.Sprint("s", i)
			servers, ends[id] = append(servers, id), &taskv1.Succeeded{}
			if rapid.Bool().Draw(t, "fails") {
				ends[id] = undone(taskv1.Step_STEP_PROVE, code.NotReady)
			}
		}
		a, b := tries(n), tries(n)
		for _, id := range servers {
			a.try(id, ends[id])
		}
		for _, id := range rapid.Permutation(servers).Draw(t, "order") {
			b.try(id, ends[id])
		}
		if x, y := a.failedOn(), b.failedOn(); !slices.Equal(x, y) {
			t.Fatalf("%v count in one order, and %v in another", x, y)
		}
	})
}
