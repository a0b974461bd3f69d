package view

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// TestAnExecutorIsInTheInventoryFromItsJoinToItsInstance follows the executor of a server: it joins, an intent wants it
// under a name of its own, that instance goes, the executor is suspended, and the server dies.
func TestAnExecutorIsInTheInventoryFromItsJoinToItsInstance(t *testing.T) {
	v, sequence := New(), uint64(0)
	tell := func(noun ledger.Noun, key string, body proto.Message) {
		t.Helper()
		sequence++
		at := time.Unix(int64(sequence), 0)
		if !v.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: at, Sequence: sequence}) {
			t.Fatalf("%T does not fit", body)
		}
	}
	wants := func(when string, rows ...string) {
		t.Helper()
		var have []string
		for key, i := range v.Instances(InstanceFilter{Kind: agentv1.Kind_KIND_SELF, Executors: true}, "") {
			have = append(have, key+" "+i.GetObserved().GetVersion()+" "+stateWord(i.State)+" "+healthWord(i.Health))
		}
		if diff := cmp.Diff(rows, have); diff != "" {
			t.Errorf("%s:\n%s", when, diff)
		}
	}
	tell(ledger.Server, "s1", &serverv1.Invited{Name: "one", Cell: "main"})
	wants("invited")
	tell(ledger.Server, "s1", &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{ExecutorVersion: "1.0.0"}})
	wants("joined", "s1.executor 1.0.0 converged ")
	tell(ledger.Server, "s1", &serverv1.Online{})
	wants("online", "s1.executor 1.0.0 converged good")

	if n := len(keysOf(v.Instances(InstanceFilter{}, ""))); n != 0 {
		t.Errorf("%d instances are listed for a caller who did not ask for executors", n)
	}
	if n := v.CountInstances(InstanceFilter{}, nil, 0).Total; n != 0 || v.InstancesOn(Executor) != 0 {
		t.Errorf("%d instances are counted, %d of the agent", n, v.InstancesOn(Executor))
	}

	differs := InstanceFilter{Executors: true, NotAtWanted: true}
	if n := v.CountInstances(differs, nil, 0).Total; n != 0 || len(keysOf(v.Instances(differs, ""))) != 0 {
		t.Errorf("%d executors are not at what is wanted, and none has anything wanted", n)
	}

	tell(ledger.Agent, "self", &agentv1.Created{Agent: &agentv1.Agent{Kind: agentv1.Kind_KIND_SELF}})
	wanted := &instancev1.Wanted{InstanceId: "x", Generation: 1, Image: &imagev1.Ref{Id: "i", Version: "2.0.0"}}
	tell(ledger.Instance, "s1.self", wanted)
	wants("wanted", "s1.self  pending ")
	tell(ledger.Instance, "s1.self", &instancev1.Unwanted{InstanceId: "x", Generation: 2})
	tell(ledger.Instance, "s1.self", &instancev1.Gone{InstanceId: "x"})
	wants("gone", "s1.executor 1.0.0 converged good")

	suspended := &serverv1.ConditionChanged{State: serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED, Reason: "why"}
	tell(ledger.Server, "s1", suspended)
	wants("suspended", "s1.executor 1.0.0 failed bad")
	tell(ledger.Server, "s1", &serverv1.Dying{})
	tell(ledger.Server, "s1", &serverv1.Dead{})
	wants("dead")
}
