package registry

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bustest"
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

func (s *site) lastFact(server, agent string) string {
	all := names(s.facts(ledger.Instance, ledger.Key(server, agent)))
	return all[len(all)-1]
}

func TestAnInstallationThatIsWithdrawnBeforeItBeganIsGone(t *testing.T) {
	t.Parallel()
	s, one := installed(t)
	s.agent("web")
	s.image("web", "1.0.0", "release")
	r := s.accepted(topology.VerbInstall, install("web", on("one")))

	w := s.withdraw(r.Id)
	if w.State != intentv1.State_STATE_WITHDRAWN || w.WithdrawnBy == "" || w.WithdrawnReason != "the wrong one" ||
		w.Changed != 1 {
		t.Errorf("withdrawn as %v", w)
	}
	s.withdraw(r.Id) // a repeat is no error and writes nothing
	if all := names(s.facts(ledger.Intent, r.Id)); !slices.Equal(all, []string{"accepted", "withdrawn"}) {
		t.Errorf("the intent's facts are %v", all)
	}
	s.taskOf(s.instance("web"), cancelled)
	bustest.Eventually(t, "the instance is gone", func() bool { return s.instance("web") == nil })
	if last := s.lastFact(one, "web"); last != "gone" {
		t.Errorf("the last fact is %s", last)
	}
}

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

func TestARemovalThatIsWithdrawnBeforeItBeganLeavesTheInstanceWanted(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	r := s.accepted(topology.VerbRemove, remove("web", on("one")))
	s.withdraw(r.Id)
	s.taskOf(s.instance("web"), cancelled)
	if i := s.untilState("web", instancev1.State_STATE_CONVERGED); i.Wanted.Version != "1.0.0" {
		t.Errorf("it is %v", i)
	}
}

// Two intents followed each other and neither began: without the second, the state before both is wanted.
func TestAWithdrawalRestoresTheLastChangeThatBegan(t *testing.T) {
	t.Parallel()
	s, one := installed(t, "web")
	s.image("web", "2.0.0", "release")
	s.image("web", "3.0.0", "release")
	s.accepted(topology.VerbUpgrade, upgrade("web", "2.0.0", on("one")))
	s.taskOf(s.instance("web"), &taskv1.Superseded{})
	r := s.accepted(topology.VerbUpgrade, upgrade("web", "3.0.0", on("one")))
	s.withdraw(r.Id)
	s.taskOf(s.instance("web"), cancelled)
	if i := s.untilState("web", instancev1.State_STATE_CONVERGED); i.Wanted.Version != "1.0.0" {
		t.Errorf("it is %v", i)
	}
	last := s.facts(ledger.Instance, ledger.Key(one, "web"))
	if w := last[len(last)-1].Body.(*instancev1.Wanted); w.WithdrawnIntentId != r.Id {
		t.Errorf("the last fact is %v", w)
	}
}

// The change before is under way when the second is withdrawn, so its end decides the state.
func TestARestoredChangeIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	s.image("web", "2.0.0", "release")
	s.image("web", "3.0.0", "release")
	s.accepted(topology.VerbUpgrade, upgrade("web", "2.0.0", on("one")))
	second := s.instance("web")
	s.taskOf(second, &taskv1.Assigned{})
	r := s.accepted(topology.VerbUpgrade, upgrade("web", "3.0.0", on("one")))
	s.withdraw(r.Id)
	s.taskOf(s.instance("web"), cancelled)
	bustest.Eventually(t, "2.0.0 is wanted",
		func() bool { return s.instance("web").GetWanted().GetVersion() == "2.0.0" })
	s.append(fact(ledger.Task, s.instance("web").TaskId, &taskv1.Undone{Outcome: &taskv1.Outcome{Reason: "no"}}))
	if i := s.untilState("web", instancev1.State_STATE_FAILED); i.Wanted.Version != "2.0.0" ||
		i.TaskState != taskv1.State_STATE_UNDONE {
		t.Errorf("it is %v", i)
	}
}

func TestATaskThatHadBegunIsNotWithdrawn(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	s.image("web", "2.0.0", "release")
	r := s.accepted(topology.VerbUpgrade, upgrade("web", "2.0.0", on("one")))
	s.taskOf(s.instance("web"), &taskv1.Assigned{}, &taskv1.Expired{}) // then tried again, and cancelled
	s.withdraw(r.Id)
	s.taskOf(s.instance("web"), cancelled)
	if i := s.instance("web"); i.Wanted.Version != "2.0.0" || i.Withdrawn || i.State != instancev1.State_STATE_FAILED {
		t.Errorf("it is %v", i)
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

// A change that its server deferred touched nothing, so it can be taken back although it began.
func TestAnUpgradeThatIsWithdrawnWhileItIsDeferredLeavesTheInstanceAsItWas(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	s.image("web", "2.0.0", "release")
	first := s.instance("web")
	r := s.accepted(topology.VerbUpgrade, upgrade("web", "2.0.0", on("one")))
	s.withdraw(r.Id)
	s.taskOf(s.instance("web"), &taskv1.Assigned{}, &taskv1.Started{}, &taskv1.Deferred{}, cancelled)

	i := s.untilState("web", instancev1.State_STATE_CONVERGED)
	if i.Wanted.Version != "1.0.0" || i.IntentId != first.IntentId || i.TaskId != first.TaskId || i.Generation != 3 {
		t.Errorf("the instance is %v", i)
	}
}
