package view_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// rolled is a view with a rollout of two agents whose only server was released.
type rolled struct {
	*view.View
	last uint64
}

func released(agents ...string) *rolled {
	r := &rolled{View: view.New()}
	r.fold(ledger.Server, "s", &serverv1.Invited{Name: "s", Cell: "main"})
	r.fold(ledger.Server, "s", &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{}})
	r.fold(ledger.Server, "s", &serverv1.Online{})
	t := &rolloutv1.Target{ServerId: "s", Wave: 1, State: rolloutv1.TargetState_TARGET_STATE_PENDING}
	for _, agent := range agents {
		t.Changes = append(t.Changes, &rolloutv1.Change{Agent: agent, To: &imagev1.Ref{Id: agent + "2"}})
	}
	r.fold(ledger.Rollout, "r", &rolloutv1.Planned{
		Waves: []uint32{1}, Part: 1, Parts: 1, Targets: []*rolloutv1.Target{t}, Strategy: &rolloutv1.Strategy{},
	})
	r.fold(ledger.Rollout, "r", &rolloutv1.Opened{Wave: 1})
	return r
}

func (r *rolled) fold(noun ledger.Noun, key string, body proto.Message) {
	r.last++
	r.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(int64(r.last), 0), Sequence: r.last})
}

// upgrade is the derived intent that changes an agent on the server.
func upgrade(agent string) *intentv1.Intent {
	return &intentv1.Intent{
		Source: &intentv1.Source{RolloutId: "r", Wave: 1},
		Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
			Agent: agent, On: &intentv1.Selector{Servers: []string{"s"}},
		}},
	}
}

func TestAServerThatWentOfflineBeforeItsReleaseWasRecordedIsSilentSinceThen(t *testing.T) {
	r := released("web")
	r.fold(ledger.Server, "s", &serverv1.Offline{})
	r.fold(ledger.Rollout, "r", &rolloutv1.Released{Wave: 1, ServerIds: []string{"s"}})
	r.fold(ledger.Intent, "i", &intentv1.Accepted{Intent: upgrade("web"), Changed: 1, ServerIds: []string{"s"}})
	got, _ := r.Target("r", "s")
	if got.State != rolloutv1.TargetState_TARGET_STATE_REACHED || got.SilentSince == nil {
		t.Errorf("it is %v; want reached, and silent since then", got)
	}
}

func TestAServerOfWhichOneChangeIsRefusedDoesNotSucceed(t *testing.T) {
	r := released("db", "web")
	r.fold(ledger.Rollout, "r", &rolloutv1.Released{Wave: 1, ServerIds: []string{"s"}})
	why := &apiv1.Refusal{Code: code.Held, Message: "it is held"}
	r.fold(ledger.Intent, "i", &intentv1.Refused{Intent: upgrade("db"), Refusal: why})
	r.fold(ledger.Intent, "j", &intentv1.Accepted{Intent: upgrade("web"), Changed: 1, ServerIds: []string{"s"}})
	got, _ := r.Target("r", "s")
	if got.State != rolloutv1.TargetState_TARGET_STATE_BROKEN || got.Reason.GetCode() != code.Held {
		t.Errorf("it is %v; want broken, because it is held", got)
	}
	if len(got.IntentIds) != 2 || got.IntentIds[0] != "" || got.IntentIds[1] != "j" {
		t.Errorf("its intents are %q; want the second alone, which is to be taken back", got.IntentIds)
	}
}
