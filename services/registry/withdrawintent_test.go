package registry

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// withdraw withdraws an intent.
func (s *site) withdraw(id string) *intentv1.Record {
	s.t.Helper()
	q := &registryv1.WithdrawIntentRequest{IntentId: id, Reason: "the wrong one"}
	return must[*registryv1.WithdrawIntentResponse](s, "WithdrawIntent", q).GetIntent()
}

// taskOf records what a dispatcher says of a task of the instance's present generation.
func (s *site) taskOf(i *instancev1.Instance, said ...proto.Message) {
	s.t.Helper()
	id := ident.New()
	drafts := []ledger.Draft{fact(ledger.Task, id, &taskv1.Queued{
		Verb: taskv1.Verb_VERB_UPGRADE, ServerId: i.ServerId, Agent: i.Agent, InstanceId: i.Id,
		Generation: i.Generation,
		Attempt:    1, To: i.Wanted, From: i.Observed, IntentId: i.IntentId,
	})}
	for _, body := range said {
		drafts = append(drafts, fact(ledger.Task, id, body))
	}
	s.append(drafts...)
}

var cancelled = &taskv1.Cancelled{Reason: "its intent was withdrawn by alice", Withdrawn: true}

func TestAnUpgradeThatIsWithdrawnBeforeItBeganLeavesTheInstanceAsItWas(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	s.image("web", "2.0.0", "release")
	first := s.instance("web")
	r := s.accepted(topology.VerbUpgrade, upgrade("web", "2.0.0", on("one")))
	s.withdraw(r.Id)
	s.taskOf(s.instance("web"), cancelled)

	i := s.untilState("web", instancev1.State_STATE_CONVERGED)
	if i.Wanted.Version != "1.0.0" || i.IntentId != first.IntentId || i.TaskId != first.TaskId || i.Generation != 3 {
		t.Errorf("it is %v, want it as %v", i, first)
	}
}

func TestOnlyAcceptedIntentsCanBeWithdrawn(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	dry := install("web", on("one"))
	dry.DryRun = true
	refused := s.publish(topology.VerbInstall, install("ghost", on("one")))
	s.outcome(refused)
	for want, id := range map[string]string{
		"UNKNOWN_INTENT":   ident.New(),
		"NOT_ACCEPTED":     refused,
		"NOT_WITHDRAWABLE": s.accepted(topology.VerbDecommission, decommission("one", false)).Id,
	} {
		if have := s.code("WithdrawIntent", &registryv1.WithdrawIntentRequest{IntentId: id}); have != want {
			t.Errorf("%s, want %s", have, want)
		}
	}
}

func TestIntentsAreListedTheNewestFirstAndFiltered(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web", "db")
	s.accepted(topology.VerbRemove, remove("db", on("one")))
	list := func(q *registryv1.ListIntentsRequest) (out []string) {
		for {
			r := must[*registryv1.ListIntentsResponse](s, "ListIntents", q)
			for _, i := range r.Intents {
				out = append(out, i.Intent.GetInstall().GetAgent()+i.Intent.GetRemove().GetAgent())
			}
			if r.NextCursor == "" {
				return out
			}
			q.Page.Cursor = r.NextCursor
		}
	}
	for name, c := range map[string]struct {
		q    *registryv1.ListIntentsRequest
		want []string
	}{
		"all":     {&registryv1.ListIntentsRequest{}, []string{"db", "db", "web"}},
		"parts":   {&registryv1.ListIntentsRequest{Page: &apiv1.Page{Limit: 1}}, []string{"db", "db", "web"}},
		"verb":    {&registryv1.ListIntentsRequest{Verb: "install"}, []string{"db", "web"}},
		"actor":   {&registryv1.ListIntentsRequest{Actor: "bob"}, nil},
		"refused": {&registryv1.ListIntentsRequest{State: intentv1.State_STATE_REFUSED}, nil},
	} {
		if have := list(c.q); !slices.Equal(have, c.want) {
			t.Errorf("%s: %v, want %v", name, have, c.want)
		}
	}
}
