package duty_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

var (
	cancelled = &taskv1.Cancelled{Reason: "its intent was withdrawn by alice", Withdrawn: true}
	givenUp   = &taskv1.Cancelled{Code: code.GivenUp, Reason: "it waited, and another change was asked for"}
	undone    = &taskv1.Undone{Outcome: &taskv1.Outcome{Code: code.NotReady, Reason: "no answer"}}
	deferred  = []proto.Message{&taskv1.Assigned{}, &taskv1.Started{}, &taskv1.Deferred{}}
)

// story is one server with web 1.0.0, and what happens to it.
type story struct {
	*recordstest.World
	server string
}

func tell(t *testing.T) *story {
	t.Helper()
	y := &story{World: recordstest.New(t)}
	y.server = y.Server("one", "")
	y.Agent("web")
	y.Image("web", "1.0.0")
	y.Accept(topology.VerbInstall, recordstest.Install("web", recordstest.On("one")))
	y.Work(nil)
	y.Image("web", "2.0.0")
	y.Image("web", "3.0.0")
	return y
}

func (y *story) web() *instancev1.Instance { return y.Instance(y.server, "web") }

func (y *story) up(version string) (intent string) {
	return y.Accept(topology.VerbUpgrade, recordstest.Upgrade("web", version, recordstest.On("one")))
}

func (y *story) remove() (intent string) {
	return y.Accept(topology.VerbRemove, &intentv1.Intent{Ask: &intentv1.Intent_Remove{
		Remove: &intentv1.Remove{Agent: "web", On: recordstest.On("one")},
	}})
}

// withdraw withdraws an intent; its task is cancelled after what else is said of it.
func (y *story) withdraw(intent string, said ...proto.Message) {
	y.Fact(ledger.Intent, intent, &intentv1.Withdrawn{Reason: "the wrong one"})
	y.Task(y.web(), append(said, cancelled)...)
	y.Duties()
}

// reverts are what happens to web, and what is wanted of it then: a version and a state, or nothing.
var reverts = map[string]struct {
	tell  func(*story)
	want  string
	first bool // the instance is as it was before, also its intent and its task
}{
	"an upgrade that did not begin": {func(y *story) { y.withdraw(y.up("2.0.0")) }, "1.0.0 CONVERGED", true},
	"a removal that did not begin":  {func(y *story) { y.withdraw(y.remove()) }, "1.0.0 CONVERGED", true},
	"an upgrade that is deferred": {
		func(y *story) { y.withdraw(y.up("2.0.0"), deferred...) }, "1.0.0 CONVERGED", true,
	},
	"an upgrade that had begun": {func(y *story) {
		id := y.up("2.0.0")
		y.Task(y.web(), &taskv1.Assigned{}, &taskv1.Expired{}) // then it is tried again, and cancelled
		y.withdraw(id)
	}, "2.0.0 FAILED", false},
	// Neither of two began: the state before both is wanted.
	"the second of two that did not begin": {func(y *story) {
		y.up("2.0.0")
		y.Task(y.web(), &taskv1.Superseded{})
		y.withdraw(y.up("3.0.0"))
	}, "1.0.0 CONVERGED", true},
	// The first is under way when the second is withdrawn, so its end decides.
	"the second, after one that is under way": {func(y *story) {
		y.up("2.0.0")
		task := y.Task(y.web(), &taskv1.Assigned{})
		y.withdraw(y.up("3.0.0"))
		y.Fact(ledger.Task, task, undone)
		y.Duties()
	}, "1.0.0 CONVERGED", true},
	"an upgrade that the server undid": {func(y *story) {
		y.up("2.0.0")
		y.Task(y.web(), &taskv1.Assigned{}, undone)
		y.Duties()
	}, "1.0.0 CONVERGED", true},
	"an upgrade after one that the server undid": {func(y *story) {
		y.up("2.0.0")
		y.Task(y.web(), &taskv1.Assigned{}, undone)
		y.Duties()
		y.up("3.0.0")
		y.Task(y.web(), &taskv1.Assigned{}, undone)
		y.Duties()
	}, "1.0.0 CONVERGED", true},
	"an upgrade again, of one that the server undoes meanwhile": {func(y *story) {
		y.up("2.0.0")
		task := y.Task(y.web(), &taskv1.Assigned{})
		y.up("3.0.0")
		y.Fact(ledger.Task, task, undone)
		y.Task(y.web(), &taskv1.Assigned{}, undone)
		y.Duties()
	}, "1.0.0 CONVERGED", true},
	"an upgrade that failed and left the server changed": {func(y *story) {
		y.up("2.0.0")
		y.Task(y.web(), &taskv1.Assigned{}, &taskv1.Failed{Outcome: &taskv1.Outcome{Code: code.NotReady}})
		y.Duties()
	}, "2.0.0 FAILED", false},
	"a removal that the server undid": {func(y *story) {
		y.remove()
		y.Task(y.web(), &taskv1.Assigned{}, undone)
		y.Duties()
	}, " FAILED", false},
	// There is nothing to go back to, and a default must not install it again.
	"a first installation that the server undid": {func(y *story) {
		y.remove()
		y.Work(nil)
		y.Accept(topology.VerbInstall, recordstest.Install("web", recordstest.On("one")))
		y.Task(y.web(), &taskv1.Assigned{}, undone)
		y.Duties()
	}, "3.0.0 FAILED", false},
	"the second, after a deferred one that is given up": {func(y *story) {
		y.up("2.0.0")
		task := y.Task(y.web(), deferred...)
		id := y.up("3.0.0")
		y.Fact(ledger.Task, task, givenUp)
		y.withdraw(id)
	}, "1.0.0 CONVERGED", true},
	// The server gave the deferred change up although it was wanted again meanwhile.
	"the second, after a deferred one that is given up later": {func(y *story) {
		y.up("2.0.0")
		task := y.Task(y.web(), deferred...)
		y.withdraw(y.up("3.0.0"))
		y.Fact(ledger.Task, task, givenUp)
		y.Duties()
	}, "1.0.0 CONVERGED", true},
	"an installation that did not begin": {func(y *story) {
		y.remove()
		y.Work(nil)
		y.withdraw(y.Accept(topology.VerbInstall, recordstest.Install("web", recordstest.On("one"))))
	}, "gone", false},
	"the removal of a deferred installation that is given up": {func(y *story) {
		y.remove()
		y.Work(nil)
		y.Accept(topology.VerbInstall, recordstest.Install("web", recordstest.On("one")))
		task := y.Task(y.web(), deferred...)
		id := y.remove()
		y.Fact(ledger.Task, task, givenUp)
		y.withdraw(id)
	}, "gone", false},
}

func TestAChangeThatIsOffLeavesWhatWasWantedBefore(t *testing.T) {
	t.Parallel()
	for name, c := range reverts {
		y := tell(t)
		first := proto.CloneOf(y.web())
		c.tell(y)
		i, have := y.web(), "gone"
		if i != nil {
			have = i.GetWanted().GetVersion() + " " + strings.TrimPrefix(i.State.String(), "STATE_")
		}
		same := i.GetIntentId() == first.IntentId && i.GetTaskId() == first.TaskId
		if have != c.want || same != c.first {
			t.Errorf("%s: %s, as it was: %v; want %s, %v: %v", name, have, same, c.want, c.first, i)
		}
	}
}
