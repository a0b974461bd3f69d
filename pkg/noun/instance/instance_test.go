package instance

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

const (
	good   = instancev1.Health_HEALTH_GOOD
	bad    = instancev1.Health_HEALTH_BAD
	absent = instancev1.Health_HEALTH_ABSENT

	pending   = instancev1.State_STATE_PENDING
	converged = instancev1.State_STATE_CONVERGED
	failed    = instancev1.State_STATE_FAILED
	drifted   = instancev1.State_STATE_DRIFTED
	removing  = instancev1.State_STATE_REMOVING
)

var one, two = &imagev1.Ref{Id: "one", Digest: []byte{1}}, &imagev1.Ref{Id: "two", Digest: []byte{2}}

// found is one way in which an agent was listed, and the states that follow: when no task
// was opened yet, when one is open, when the last succeeded, and when it ended badly.
type found struct {
	name                    string
	observed                *imagev1.Ref
	health                  instancev1.Health
	shown                   bool // that the present generation was brought about
	none, open, done, wrong instancev1.State
}

var truths = []found{
	{"nothing yet", nil, 0, false, pending, pending, pending, failed},
	{"nothing", nil, absent, true, drifted, pending, drifted, failed},
	{"the wanted, good", one, good, true, converged, converged, converged, converged},
	{"the wanted, good, before the change", one, good, false, pending, pending, converged, converged},
	{"the wanted, bad", one, bad, true, failed, pending, failed, failed},
	{"the wanted, bad, before the change", one, bad, false, pending, pending, pending, failed},
	{"another, good", two, good, true, drifted, pending, drifted, failed},
	{"another, good, before the change", two, good, false, pending, pending, pending, failed},
	{"another, bad", two, bad, true, drifted, pending, drifted, failed},
	{"another content", &imagev1.Ref{Id: "one", Digest: []byte{9}}, good, true, drifted, pending, drifted, failed},
}

func TestAStateFollowsFromWantedObservedAndTheLastTask(t *testing.T) {
	for _, f := range truths {
		for n := range taskv1.State_name {
			last := taskv1.State(n)
			want, unwanted := f.open, removing
			switch last {
			case taskv1.State_STATE_UNSPECIFIED:
				want = f.none
			case taskv1.State_STATE_SUCCEEDED:
				want = f.done
			case taskv1.State_STATE_FAILED,
				taskv1.State_STATE_UNDONE,
				taskv1.State_STATE_CANCELLED,
				taskv1.State_STATE_EXPIRED:
				want, unwanted = f.wrong, failed
			}
			i := &instancev1.Instance{
				Wanted:     one,
				Generation: 2,
				Observed:   f.observed,
				Health:     f.health,
				TaskState:  last,
			}
			if f.shown {
				i.ObservedGeneration = 2
			}
			if have := Derive(i); have != want {
				t.Errorf("wanted, %s, last task %s: %s; want %s", f.name, last, have, want)
			}
			i.Wanted = nil
			if have := Derive(i); have != unwanted {
				t.Errorf("unwanted, %s, last task %s: %s; want %s", f.name, last, have, unwanted)
			}
		}
	}
}

func at(second int64, body proto.Message) ledger.Fact {
	return ledger.Fact{Noun: ledger.Instance, Key: "server.web", Body: body, At: time.Unix(second, 0)}
}

// after folds bodies into an instance, and notes tasks; it fails when one does not fit.
func after(t *testing.T, steps ...proto.Message) *instancev1.Instance {
	t.Helper()
	var i *instancev1.Instance
	for n, s := range steps {
		if task, ok := s.(*taskv1.Task); ok {
			ApplyTask(i, task, time.Unix(int64(n), 0))
			continue
		}
		next, fit := Apply(i, at(int64(n), s))
		if !fit {
			t.Fatalf("step %d does not fit: %v", n, s)
		}
		i = next
	}
	return i
}

func wanted(generation uint64, image *imagev1.Ref) *instancev1.Wanted {
	return &instancev1.Wanted{InstanceId: "i", Generation: generation, Image: image, IntentId: "intent"}
}

func configured(generation uint64, digest byte) *instancev1.Wanted {
	w := wanted(generation, one)
	w.Configuration = &instancev1.Configuration{Digest: []byte{digest}}
	return w
}

func task(generation uint64, s taskv1.State, from, to *imagev1.Ref) *taskv1.Task {
	return &taskv1.Task{
		Id:         "t",
		InstanceId: "i",
		Generation: generation,
		State:      s,
		From:       from,
		To:         to,
		Reason:     "because",
	}
}

// listed is what a list of the server's agents adds to the ledger: the image, and the
// generation that brought it.
func listed(generation uint64, image *imagev1.Ref) *instancev1.Observed {
	return &instancev1.Observed{InstanceId: "i", Image: image, Health: good, Generation: generation}
}

func listedWith(generation uint64, digest byte) *instancev1.Observed {
	o := listed(generation, one)
	o.ConfigurationDigest = []byte{digest}
	return o
}

func listedBad(generation uint64, image *imagev1.Ref, why string) *instancev1.Observed {
	o := listed(generation, image)
	o.Health, o.Reason = bad, why
	return o
}

var (
	gone     = &instancev1.Observed{InstanceId: "i", Health: absent}
	unwanted = &instancev1.Unwanted{InstanceId: "i", Generation: 2}
)

// lives are the lives of an instance, and where each comes to.
var lives = []struct {
	name  string
	steps []proto.Message
	want  instancev1.State
}{
	{"wanted", []proto.Message{wanted(1, one)}, pending},
	{"installed, not listed yet", []proto.Message{wanted(1, one), task(1, succeeded, nil, one)}, pending},
	{"installed, and listed", []proto.Message{wanted(1, one), task(1, succeeded, nil, one), listed(1, one)}, converged},
	{"listed before the end", []proto.Message{wanted(1, one), task(1, running, nil, one), listed(1, one)}, converged},
	{
		"an old task says nothing",
		[]proto.Message{wanted(1, one), wanted(2, two), task(1, succeeded, nil, one)},
		pending,
	},
	{"an upgrade that was undone", []proto.Message{
		wanted(1, one), listed(1, one), wanted(2, two), task(2, undone, one, two),
	}, failed},
	{"an upgrade, not listed yet", []proto.Message{
		wanted(1, one), listed(1, one), wanted(2, two), task(2, succeeded, one, two),
	}, pending},
	{"the old one ends, is listed, and the new one is proven", []proto.Message{
		wanted(1, one), listed(1, one), wanted(2, two), listedBad(1, one, "it ended"),
		task(2, succeeded, one, two),
	}, pending},
	{"back to what runs, with another change under way", []proto.Message{
		wanted(1, one), listed(1, one), wanted(2, two), wanted(3, one),
	}, pending},
	{
		"somebody deleted it",
		[]proto.Message{wanted(1, one), task(1, succeeded, nil, one), listed(1, one), gone},
		drifted,
	},
	{"it came back", []proto.Message{
		wanted(1, one), task(1, succeeded, nil, one), listed(1, one), gone, listed(1, one),
	}, converged},
	{"it crashes", []proto.Message{wanted(1, one), task(1, succeeded, nil, one), listedBad(1, one, "exit 1")}, failed},
	{"unwanted", []proto.Message{wanted(1, one), task(1, succeeded, nil, one), unwanted}, removing},
	{"configured", []proto.Message{configured(1, 7), task(1, succeeded, nil, one), listedWith(1, 7)}, converged},
	{"configured anew", []proto.Message{configured(1, 7), listedWith(1, 7), configured(2, 8)}, pending},
	{"and that succeeded", []proto.Message{
		configured(1, 7), listedWith(1, 7), configured(2, 8), task(2, succeeded, one, one), listedWith(2, 8),
	}, converged},
	{"and that was undone", []proto.Message{
		configured(1, 7), listedWith(1, 7), configured(2, 8), task(2, undone, one, one),
	}, failed},
	{"listed with another configuration", []proto.Message{
		configured(1, 7), task(1, succeeded, nil, one), listedWith(1, 9),
	}, drifted},
	{"adopted, and not listed yet", []proto.Message{wanted(1, one), task(1, succeeded, nil, one), adopted}, pending},
	{"adopted and listed", []proto.Message{
		wanted(1, one), task(1, succeeded, nil, one), adopted, listed(1, one),
	}, converged},
	{"an executor that says no generation", []proto.Message{
		wanted(1, one), task(1, succeeded, nil, one), listed(0, one),
	}, converged},
	{
		"and drifts",
		[]proto.Message{wanted(1, one), task(1, succeeded, nil, one), listed(0, one), listed(0, two)},
		drifted,
	},
}

var adopted = &instancev1.Adopted{
	InstanceId: "i", Image: one, Adoption: &serverv1.Adoption{Candidate: "process/7-8", Pid: 7},
}

func TestAnAdoptionIsKeptUntilAnUpgradeReplacesTheProcess(t *testing.T) {
	proof := adopted.Adoption
	brought := task(1, succeeded, nil, one)
	brought.Verb, brought.Outcome = taskv1.Verb_VERB_ADOPT, &taskv1.Outcome{Adoption: proof}
	asked := wanted(1, one)
	asked.AdoptCandidate = proof.Candidate
	i := after(t, asked, brought)
	if i.Adoption != nil || !proto.Equal(i.Proven, proof) || i.AdoptCandidate != "" {
		t.Fatalf("after its task: %v", i)
	}
	i = after(t, asked, brought, adopted)
	if !proto.Equal(i.Adoption, proof) || i.Proven != nil || i.Observed != nil {
		t.Fatalf("once adopted: %v", i)
	}
	upgrade := task(2, succeeded, one, two)
	upgrade.Verb = taskv1.Verb_VERB_UPGRADE
	if i = after(t, asked, brought, adopted, wanted(2, two), upgrade); i.Adoption != nil {
		t.Errorf("after an upgrade: %v", i.Adoption)
	}
	undoneUpgrade := task(2, undone, one, two)
	undoneUpgrade.Verb = taskv1.Verb_VERB_UPGRADE
	if i = after(t, asked, brought, adopted, wanted(2, two), undoneUpgrade); i.Adoption == nil {
		t.Error("an upgrade that was undone ended the adoption")
	}
}

const (
	succeeded = taskv1.State_STATE_SUCCEEDED
	undone    = taskv1.State_STATE_UNDONE
	running   = taskv1.State_STATE_RUNNING
)

func TestAnInstanceGoesThroughItsLife(t *testing.T) {
	for _, c := range lives {
		t.Run(c.name, func(t *testing.T) {
			if have := after(t, c.steps...).State; have != c.want {
				t.Errorf("state %s; want %s", have, c.want)
			}
		})
	}
}

// TestTheEndOfATaskNeverOverwritesWhatTheServerLists: the version before was being tried
// when the task was queued, and is named by it; both are undone.
func TestTheEndOfATaskNeverOverwritesWhatTheServerLists(t *testing.T) {
	for _, end := range []taskv1.State{
		succeeded, undone, taskv1.State_STATE_FAILED, taskv1.State_STATE_EXPIRED, taskv1.State_STATE_CANCELLED,
	} {
		i := after(t, wanted(1, one), listedBad(1, one, "its files were changed"), wanted(2, two),
			task(2, end, two, two))
		if i.Observed.GetId() != "one" || i.Health != bad || i.ObservedReason != "its files were changed" {
			t.Errorf("%s: observed %v, %s; the server lists one, bad", end, i.Observed, i.Health)
		}
	}
}

// TestTheReasonOfDamageOutlivesTheEndOfTheChangeBeforeIt: the list may be recorded before the end.
func TestTheReasonOfDamageOutlivesTheEndOfTheChangeBeforeIt(t *testing.T) {
	end := task(1, succeeded, nil, one)
	end.Reason = ""
	i := after(t, wanted(1, one), listedBad(1, one, "its files were changed"), end)
	if i.State != instancev1.State_STATE_FAILED || i.Reason != "its files were changed" {
		t.Errorf("it is %s with the reason %q, want what the server lists", i.State, i.Reason)
	}
}

func TestAnInstanceIsRemovedOnlyWhenItsOwnRemovalSucceeded(t *testing.T) {
	i := after(t, wanted(1, one), task(1, taskv1.State_STATE_SUCCEEDED, nil, one), unwanted)
	if Removed(i) {
		t.Error("it counts as removed before any removal ran")
	}
	ApplyTask(i, task(2, taskv1.State_STATE_SUCCEEDED, one, nil), time.Unix(9, 0))
	if !Removed(i) {
		t.Error("it does not count as removed after its removal")
	}
}

func TestAFactThatDoesNotFitChangesNothing(t *testing.T) {
	for name, body := range map[string]proto.Message{
		"an old generation":     wanted(1, two),
		"another instance":      &instancev1.Wanted{InstanceId: "other", Generation: 9, Image: two},
		"another's removal":     &instancev1.Unwanted{InstanceId: "other", Generation: 9},
		"another's end":         &instancev1.Gone{InstanceId: "other"},
		"another's observation": &instancev1.Observed{InstanceId: "other", Health: bad},
		"another's adoption":    &instancev1.Adopted{InstanceId: "other", Image: one},
	} {
		t.Run(name, func(t *testing.T) {
			i := after(t, wanted(1, one))
			before := proto.CloneOf(i)
			next, fit := Apply(i, at(9, body))
			if fit || !proto.Equal(before, next) {
				t.Errorf("fit %v: %s", fit, cmp.Diff(before, next, protocmp.Transform()))
			}
		})
	}
}
