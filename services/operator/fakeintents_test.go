package operator

import (
	"cmp"
	"strings"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func (f *fakes) hear(m bus.Message) {
	address, err := topology.ParseIntentSubject(m.Subject)
	i := &intentv1.Intent{}
	if err != nil || bus.Unmarshal(m, i) != nil {
		return
	}
	r := &intentv1.Record{
		Id:        address.ID,
		Actor:     address.Actor,
		Intent:    i,
		State:     intentv1.State_STATE_ACCEPTED,
		DecidedAt: ago(0),
		ServerIds: []string{web1, web2},
		Changed:   2,
	}
	switch agentOf(i) {
	case "ghost":
		r = &intentv1.Record{
			Id:     address.ID,
			Actor:  address.Actor,
			Intent: i,
			State:  intentv1.State_STATE_REFUSED,
			Refusal: &apiv1.Refusal{
				Code: "NO_MATCH", Component: ledger.Registry, Try: "garrison image list ghost",
				Message: `no image of agent "ghost" for linux/amd64 in channel release (7 images searched)`,
			},
		}
	case "many":
		r.Changed = 1200 // more than it names
	case "huge":
		r.Changed = 12_000 // more than there are tasks kept
	case "stale":
		f.mu.Lock()
		f.intents["stale"] = r
		f.mu.Unlock()
		r = &intentv1.Record{
			Id:     address.ID,
			Actor:  address.Actor,
			Intent: i,
			State:  intentv1.State_STATE_REFUSED,
			Refusal: &apiv1.Refusal{
				Code: "PLAN_STALE", Component: ledger.Registry, Message: "the plan no longer holds"},
		}
	case "odd":
		r.ServerIds, r.Changed, r.LeftOut = []string{web1}, 1, 1
		r.Reasons = []*intentv1.Reason{{
			Code: "WRONG_PLATFORM", Effect: intentv1.Effect_EFFECT_LEFT_OUT, Count: 1, ServerIds: []string{web2},
			First: &apiv1.Refusal{Code: "WRONG_PLATFORM", Message: "no image for linux/arm64"},
		}}
	case "same":
		r.ServerIds, r.Changed, r.Already = nil, 0, 2
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intents[address.ID] = r
}

// intent returns an intent by its id or a prefix of it, or nil. It must be called while f is locked.
func (f *fakes) intent(id string) *intentv1.Record {
	if r := f.intents[id]; r != nil {
		return r
	}
	for whole, r := range f.intents {
		if len(id) >= 4 && strings.HasPrefix(whole, id) {
			return r
		}
	}
	return nil
}

func agentOf(i *intentv1.Intent) string {
	return cmp.Or(i.GetInstall().GetAgent(), i.GetUpgrade().GetAgent(), i.GetRemove().GetAgent(),
		i.GetConfigure().GetAgent(), i.GetAdopt().GetAgent(), i.GetRelease().GetAgent())
}
