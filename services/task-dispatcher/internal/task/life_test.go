package task

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

func TestEveryFactInEveryStateDoesWhatTheTableSays(t *testing.T) {
	if err := Life.Check(); err != nil {
		t.Fatal(err)
	}
	want := map[State]string{
		Queued: "assigned cancelled expired superseded", Assigned: "expired failed started succeeded undone",
		Running: "expired failed succeeded undone", Succeeded: "", Failed: "", Undone: "", Cancelled: "", Expired: "", Superseded: "",
	}
	for _, s := range Life.States() {
		var can []string
		for _, f := range Life.Facts() {
			if _, ok := Next(s.Proto(), f); ok {
				can = append(can, string(f))
			}
		}
		if got := strings.Join(can, " "); got != want[s] {
			t.Errorf("to a task that is %s can happen %q, want %q", s, got, want[s])
		}
		if Ended(s.Proto()) != (want[s] == "") {
			t.Errorf("%s is an end: %v", s, Ended(s.Proto()))
		}
	}
}

func TestEveryTaskFactOfTheLedgerIsInTheTable(t *testing.T) {
	for _, k := range ledger.Kinds {
		if k.Noun != ledger.Task || slices.Contains([]string{"queued", "claimed", "reported-late"}, k.Name) {
			continue // the first of a task, one that is about no task, and one that moves none
		}
		if got := FactOf(k.Body); string(got) != k.Name || !slices.Contains(Life.Facts(), got) {
			t.Errorf("the fact %s is %q here", k.Name, got)
		}
	}
	for n := range taskv1.State_name {
		if s := taskv1.State(n); s != taskv1.State_STATE_UNSPECIFIED && StateOf(s).Proto() != s {
			t.Errorf("state %v is %q here", s, StateOf(s))
		}
	}
}

func TestTheReadmeShowsTheTable(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := "```mermaid\n" + Life.Mermaid(Queued) + "```"
	if !strings.Contains(string(data), want) {
		t.Errorf("README.md does not hold the life of a task; put this there:\n%s", want)
	}
}

func TestAReportBecomesAFactOrRepeatsOrIsNotBelieved(t *testing.T) {
	cases := []struct {
		name string
		now  State
		said State
		fact Fact
		kind fault.Kind
	}{
		{"the executor began", Assigned, Running, WasStarted, 0},
		{"it says so again", Running, Running, "", 0},
		{"it succeeded without a start", Assigned, Succeeded, HasSucceeded, 0},
		{"it succeeded", Running, Succeeded, HasSucceeded, 0},
		{"it failed", Running, Failed, HasFailed, 0},
		{"it was undone", Running, Undone, WasUndone, 0},
		{"it ended before", Expired, Succeeded, "", 0},
		{"it was never assigned", Queued, Running, "", fault.Invalid},
		{"it says what is not its to say", Running, Cancelled, "", fault.Invalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			body, err := Reported(c.now.Proto(), Said{State: c.said.Proto()})
			if (err != nil) != (c.kind == fault.Invalid) || (err != nil && !fault.Is(err, fault.Invalid)) {
				t.Fatalf("error %v, want kind %v", err, c.kind)
			}
			if got := FactOf(body); got != c.fact {
				t.Errorf("the fact is %q, want %q", got, c.fact)
			}
		})
	}
}

func TestAnOutcomeIsCutToWhatAFactMayHold(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	body, err := Reported(taskv1.State_STATE_RUNNING, Said{State: taskv1.State_STATE_FAILED, Outcome: &taskv1.Outcome{
		Code: long, Reason: long, LogTail: long + "the end", Steps: make([]*taskv1.StepTime, 100),
	}})
	if err != nil {
		t.Fatal(err)
	}
	o := body.(*taskv1.Failed).Outcome
	if len(o.Code) > MaxCode || len(o.Reason) > MaxReason || len(o.LogTail) > MaxLogTail || len(o.Steps) > MaxSteps {
		t.Errorf("sizes %d %d %d %d", len(o.Code), len(o.Reason), len(o.LogTail), len(o.Steps))
	}
	if !strings.HasSuffix(o.LogTail, "the end") || !strings.HasPrefix(o.Reason, "ä") || strings.ContainsRune(o.Reason+o.LogTail+o.Code, '\uFFFD') {
		t.Errorf("what was kept is %.20q…", o.Reason)
	}
}

func TestATaskIsDueForAGenerationWithoutOne(t *testing.T) {
	alive := &dispatcherv1.ServerRecord{Life: serverv1.Life_LIFE_ALIVE, Presence: serverv1.Presence_PRESENCE_ONLINE, OnlineSequence: 50}
	dying := &dispatcherv1.ServerRecord{Life: serverv1.Life_LIFE_DYING, Presence: serverv1.Presence_PRESENCE_ONLINE, OnlineSequence: 50}
	cases := []struct {
		name     string
		instance *dispatcherv1.InstanceRecord
		server   *dispatcherv1.ServerRecord
		want     uint32
	}{
		{"a new generation", &dispatcherv1.InstanceRecord{Generation: 2, TaskGeneration: 1, Attempt: 3}, alive, 1},
		{"one that has its task", &dispatcherv1.InstanceRecord{Generation: 2, TaskGeneration: 2, Attempt: 1}, alive, 0},
		{"expired, and the server came back", &dispatcherv1.InstanceRecord{Generation: 2, TaskGeneration: 2, Attempt: 1, ExpiredSequence: 40}, alive, 2},
		{"expired while the server was there", &dispatcherv1.InstanceRecord{Generation: 2, TaskGeneration: 2, Attempt: 1, ExpiredSequence: 60}, alive, 0},
		{"wanted on a server that goes", &dispatcherv1.InstanceRecord{Generation: 2}, dying, 0},
		{"unwanted on a server that goes", &dispatcherv1.InstanceRecord{Generation: 2, Unwanted: true}, dying, 1},
		{"on a server that is not known", &dispatcherv1.InstanceRecord{Generation: 2}, nil, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := Due(c.instance, c.server); got != c.want {
				t.Errorf("attempt %d, want %d", got, c.want)
			}
		})
	}
}

func TestTheVerbFollowsFromWhatIsPlaced(t *testing.T) {
	one, two := &imagev1.Ref{Id: "1"}, &imagev1.Ref{Id: "2"}
	cases := []struct {
		name     string
		instance *dispatcherv1.InstanceRecord
		want     *taskv1.Queued
	}{
		{"nothing is there", &dispatcherv1.InstanceRecord{Generation: 1, Wanted: one},
			&taskv1.Queued{Verb: taskv1.Verb_VERB_INSTALL, Generation: 1, To: one}},
		{"another image is there", &dispatcherv1.InstanceRecord{Generation: 2, Wanted: two, Placed: one, PlacedGeneration: 1},
			&taskv1.Queued{Verb: taskv1.Verb_VERB_UPGRADE, Generation: 2, From: one, To: two}},
		{"it is unwanted", &dispatcherv1.InstanceRecord{Generation: 2, Unwanted: true, Placed: one, PlacedGeneration: 1},
			&taskv1.Queued{Verb: taskv1.Verb_VERB_REMOVE, Generation: 2, From: one}},
		{"an earlier try expired", &dispatcherv1.InstanceRecord{Generation: 2, Wanted: two, Placed: two, PlacedGeneration: 2, Before: one, Unsettled: true},
			&taskv1.Queued{Verb: taskv1.Verb_VERB_UPGRADE, Generation: 2, From: one, To: two}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, got := ForInstance(c.instance, 1, 1)
			c.want.Attempt = 1
			if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
