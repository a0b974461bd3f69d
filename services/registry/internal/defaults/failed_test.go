package defaults_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// ends installs an agent on a server by a task that ends so.
func (w *world) ends(server, agent string, end proto.Message) {
	w.has(server, agent, "1.0.0")
	i, _ := w.Instance(server, agent)
	id := "task-" + server
	w.apply(ledger.Task, id, &taskv1.Queued{
		InstanceId: i.Id, Generation: i.Generation, ServerId: server, Agent: agent, To: i.Wanted,
		Verb: taskv1.Verb_VERB_INSTALL,
	})
	for _, body := range []proto.Message{&taskv1.Assigned{}, &taskv1.Started{}, end} {
		w.apply(ledger.Task, id, body)
	}
}

// A person may have brought the build to the first server, so no default has to have failed before.
func TestADefaultBringsNoBuildThatFailedAndWorksNowhere(t *testing.T) {
	w := site()
	w.set("db", onNew)
	undone := &taskv1.Undone{Outcome: &taskv1.Outcome{FailedStep: taskv1.Step_STEP_PROVE, Code: code.NotReady}}
	w.join("bad", "prod", "amd64")
	w.ends("bad", "db", undone)
	w.join("s", "prod", "amd64")
	if got := w.settle("s"); got != nil {
		t.Errorf("installed %v after it failed on the only server", got)
	}
	w.join("good", "prod", "amd64")
	w.ends("good", "db", &taskv1.Succeeded{})
	if got := w.settle("s"); !slices.Equal(got, []string{"s.db"}) {
		t.Errorf("installed %v although it works on a server", got)
	}
}

func TestABuildThatFailedOnlyOnServersThatAreGoneIsBrought(t *testing.T) {
	w := site()
	w.set("db", onNew)
	w.join("bad", "prod", "amd64")
	w.ends("bad", "db", &taskv1.Undone{
		Outcome: &taskv1.Outcome{FailedStep: taskv1.Step_STEP_PROVE, Code: code.NotReady},
	})
	w.apply(ledger.Server, "bad", &serverv1.Dying{})
	w.join("s", "prod", "amd64")
	if got := w.settle("s"); !slices.Equal(got, []string{"s.db"}) {
		t.Errorf("installed %v", got)
	}
}

func TestADefaultComesOnceTheTimeOfAHoldPassed(t *testing.T) {
	for until, want := range map[int64][]string{100: nil, 99: {"s.db"}} { // it is 99
		w := site()
		w.set("db", onNew)
		w.apply(ledger.Hold, "h", &holdv1.Hold{
			Agent: "db", On: &intentv1.Selector{All: true}, Until: timestamppb.New(time.Unix(until, 0)),
		})
		w.join("s", "prod", "amd64")
		if got := w.settle("s"); !slices.Equal(got, want) {
			t.Errorf("until %d: installed %v, want %v", until, got, want)
		}
	}
}
