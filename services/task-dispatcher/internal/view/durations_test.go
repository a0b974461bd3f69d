package view

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/usual"
)

var someBounds = usual.Bounds{Least: time.Minute, Unknown: 10 * time.Minute, Most: time.Hour}

// withins returns how long the tasks may be under way that may be assigned.
func (l *factory) withins() (all []time.Duration) {
	tasks := l.view.Queue.Admissions(time.Time{}, 100, 100)
	l.view.Durations.SetWithin(tasks, someBounds)
	for _, a := range tasks {
		all = append(all, a.Within)
	}
	return all
}

// taken records a task that was assigned and then ended, by default as succeeded after ten seconds.
func (l *factory) taken(id string, ends ...proto.Message) {
	l.fold(ledger.Task, id, &taskv1.Assigned{Deadline: timestamppb.New(time.Unix(int64(l.last+1), 0).Add(time.Hour))})
	if len(ends) == 0 {
		l.last += 10
		ends = append(ends, &taskv1.Succeeded{Outcome: &taskv1.Outcome{Steps: []*taskv1.StepTime{
			{Step: taskv1.Step_STEP_PROVE, Took: durationpb.New(6 * time.Second)},
		}}})
	}
	for _, end := range ends {
		l.fold(ledger.Task, id, end)
	}
}

// wantNext wants the next image of the agent on a server, and opens the task.
func (l *factory) wantNext(server string, generation uint64, image string) {
	l.fold(ledger.Instance, ledger.Key(server, "a"), &instancev1.Wanted{
		InstanceId: "x" + server, Generation: generation, Image: &imagev1.Ref{Id: image},
	})
	l.open(1)
}

func TestOnlyChangesOfAKindThatSucceededTeachHowLongTheyTake(t *testing.T) {
	l := installed(usual.Enough + 10)
	l.open(usual.Enough + 10)
	all := l.view.Queue.Admissions(time.Time{}, 100, 100)
	for _, a := range all[:9] {
		l.taken(a.ID, &taskv1.Undone{})
	}
	for _, a := range all[9 : 9+usual.Enough-1] {
		l.taken(a.ID)
	}
	if have := l.withins(); len(have) != 2 || have[0] != someBounds.Unknown {
		t.Fatalf("before enough succeeded: %v", have)
	}
	l.taken(all[9+usual.Enough-1].ID)
	if have := l.withins(); len(have) != 1 || have[0] != someBounds.Least {
		t.Fatalf("after enough succeeded: %v", have)
	}
	last := all[len(all)-1].ID
	task, _, _ := l.view.Rows.Task(last)
	d, ok := l.view.Durations.UsualOfKind(task, taskv1.Step_STEP_PROVE)
	if !ok || d < 6*time.Second || d > 8*time.Second {
		t.Errorf("a proof usually takes %s, %t", d, ok)
	}
	l.taken(last)

	l.fold(ledger.Image, "i2", &imagev1.Created{Manifest: &imagev1.Manifest{Id: "i2"}})
	l.wantNext("s29", 2, "i2")
	if have := l.withins(); len(have) != 1 || have[0] != someBounds.Unknown {
		t.Errorf("an upgrade has %v; only installs are known", have)
	}
}

func TestAnImageThatIsLargeHasTimeForASlowLink(t *testing.T) {
	l := installed(usual.Enough + 1)
	l.open(usual.Enough + 1)
	for _, a := range l.view.Queue.Admissions(time.Time{}, 100, usual.Enough) {
		l.taken(a.ID)
	}
	for size, want := range map[uint64]time.Duration{
		0: time.Minute, 30 << 20: 285 * time.Second, 500 << 20: someBounds.Unknown,
	} {
		l.fold(ledger.Image, "i1", &imagev1.Created{Manifest: &imagev1.Manifest{Blob: &imagev1.Blob{SizeBytes: size}}})
		have := l.withins()
		if len(have) != 1 || have[0] < want || have[0] > want+20*time.Second {
			t.Errorf("an image of %d bytes has %v, want %s", size, have, want)
		}
		l.fold(ledger.Image, "i1", &imagev1.Deleted{})
	}
}

// What is shortened by others must not fail the same server again and again.
func TestAChangeAfterOneThatTimedOutHasAllTheTime(t *testing.T) {
	for name, c := range map[string]struct {
		end  proto.Message
		want time.Duration
	}{
		"undone for another reason": {&taskv1.Undone{}, someBounds.Least},
		"undone by its server":      {&taskv1.Undone{Outcome: &taskv1.Outcome{Code: "TIMED_OUT"}}, someBounds.Unknown},
		"expired":                   {&taskv1.Expired{}, someBounds.Unknown},
	} {
		l := installed(usual.Enough + 1)
		l.open(usual.Enough + 1)
		for _, a := range l.view.Queue.Admissions(time.Time{}, 100, usual.Enough) {
			l.taken(a.ID)
		}
		l.taken(l.view.Queue.Admissions(time.Time{}, 1, 1)[0].ID, c.end)
		server := "s20"
		l.wantNext(server, 2, "i1")
		if have := l.withins(); len(have) != 1 || have[0] != c.want {
			t.Errorf("%s: the next has %v, want %s", name, have, c.want)
		}
		l.taken(l.view.Queue.Admissions(time.Time{}, 1, 1)[0].ID)
		if i, _ := l.view.instances.table.Get(ledger.Key(server, "a")); i.TimedOut {
			t.Errorf("%s: it still counts after a success", name)
		}
	}
}

func TestChangesOfOneServerHaveTheTimeOfEachOther(t *testing.T) {
	l := installed(usual.Enough + 1)
	l.open(usual.Enough + 1)
	for _, a := range l.view.Queue.Admissions(time.Time{}, 100, usual.Enough) {
		l.taken(a.ID)
	}
	l.fold(ledger.Instance, ledger.Key("s20", "b"), &instancev1.Wanted{
		InstanceId: "other", Generation: 1, Image: &imagev1.Ref{Id: "i9"},
	})
	l.open(1)
	have := l.withins()
	if len(have) != 2 || have[0] != someBounds.Unknown || have[1] != someBounds.Unknown {
		t.Errorf("beside an unknown one: %v", have)
	}
	for _, a := range l.view.Queue.Admissions(time.Time{}, 100, 100) {
		if task, _, _ := l.view.Rows.Task(a.ID); task.Agent == "b" {
			l.fold(ledger.Task, a.ID, &taskv1.Assigned{Opened: a.Opened})
		}
	}
	if have := l.withins(); len(have) != 1 || have[0] != someBounds.Unknown {
		t.Errorf("after that was assigned: %v", have)
	}
}

func TestTheDurationsOfADeletedAgentAreForgotten(t *testing.T) {
	l := installed(2)
	l.fold(ledger.Agent, "a", &agentv1.Created{Agent: &agentv1.Agent{Name: "a"}})
	l.open(2)
	for _, a := range l.view.Queue.Admissions(time.Time{}, 2, 2) {
		l.taken(a.ID)
	}
	if n := l.view.durations.Len(); n != 1 {
		t.Fatalf("%d kinds of changes are known, want 1", n)
	}
	l.fold(ledger.Server, "s0", &serverv1.Offline{})
	l.fold(ledger.Agent, "a", &agentv1.Deleted{})
	if n := l.view.durations.Len(); n != 0 {
		t.Errorf("%d kinds of changes are known of a deleted agent", n)
	}
}
