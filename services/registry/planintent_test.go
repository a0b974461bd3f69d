package registry

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func (s *site) plan(q *registryv1.PlanIntentRequest) *registryv1.PlanIntentResponse {
	s.t.Helper()
	return must[*registryv1.PlanIntentResponse](s, "PlanIntent", q)
}

// The image is computed for each server, by its platform and its environment's channel.
func TestAPlanShowsFromAndToForEachServerAndWritesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.channel("dev", false)
	s.image("web", "1.0.0", "release")
	newest := s.image("web", "1.1.0", "release")
	dev := s.image("web", "2.0.0-rc.1", "dev")
	s.append(
		fact(ledger.Environment, "lab",
			&environmentv1.Created{Environment: &environmentv1.Environment{Channel: "dev"}}),
	)
	one, two := s.server("one"), s.server("two")
	s.append(fact(ledger.Server, two, &serverv1.Changed{Environment: "lab"}))
	all := &intentv1.Selector{All: true}
	before := s.last()

	r := s.plan(&registryv1.PlanIntentRequest{Intent: install("web", all)})

	to := map[string]string{}
	for _, x := range r.Targets {
		to[x.ServerName] = x.To.GetId()
		if len(x.To.GetDigest()) == 0 {
			t.Errorf("%s goes to an image without a digest", x.ServerName)
		}
	}
	if to["one"] != newest || to["two"] != dev || len(r.Plans) != 1 || len(r.Plans[0].Chosen) != 2 {
		t.Errorf("%v, chosen %v; want %s and %s", to, r.Plans[0].GetChosen(), newest, dev)
	}
	if after := s.last(); after != before {
		t.Errorf("the ledger ends at %d after a plan; want %d", after, before)
	}
	s.image("web", "1.2.0", "release")
	s.accepted("install", r.Plans[0].Intent)
	s.r.follower.Read(func() {
		if i, _ := s.r.records.View.Instance(one, "web"); i.GetWanted().GetId() != newest {
			t.Errorf("wanted at %v; want what the plan showed", i.GetWanted())
		}
	})
}

// last returns the sequence of the last fact in the ledger.
func (s *site) last() uint64 {
	s.t.Helper()
	end, err := s.r.cfg.Conn.Stream(s.t.Context(), topology.Ledger)
	if err != nil {
		s.t.Fatal(err)
	}
	return end.LastSequence
}

// A plan shows the values that differ on servers that have the agent, counted over all of its parts.
func TestAPlanShowsWhichValuesChangeOnHowManyServers(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	s.server("one")
	s.server("two")
	all := &intentv1.Selector{All: true}
	s.accepted("install", install("web", all))
	values := func(q *registryv1.PlanIntentRequest) (out []string) {
		for _, v := range s.plan(q).Values {
			out = append(out, fmt.Sprintf("%s %s %v %s %s %d", v.Agent, v.Name, v.From == nil, v.GetFrom(), v.GetTo(),
				v.Servers))
		}
		return out
	}
	set := func(level string) *intentv1.Intent { return configure("web", map[string]string{"level": level}, all) }

	have := values(&registryv1.PlanIntentRequest{Intent: set("info"), Page: &apiv1.Page{Limit: 1}})
	if want := []string{"web level true  info 2"}; !slices.Equal(have, want) {
		t.Errorf("a value that comes: %q, want %q", have, want)
	}
	s.accepted(topology.VerbConfigure, set("info"))
	have = values(&registryv1.PlanIntentRequest{Intent: set("debug")})
	if want := []string{"web level false info debug 2"}; !slices.Equal(have, want) {
		t.Errorf("a value that changes: %q, want %q", have, want)
	}
	q := &registryv1.PlanIntentRequest{Intent: set("debug"), Page: &apiv1.Page{Limit: 1}}
	q.Page.Cursor = s.plan(q).NextCursor
	if have = values(q); q.Page.Cursor == "" || len(have) > 0 {
		t.Errorf("the second part repeats %q", have)
	}
	if have = values(&registryv1.PlanIntentRequest{Intent: set("info")}); len(have) > 0 {
		t.Errorf("nothing differs: %q", have)
	}
}

func TestAPoisonedIntentDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	s.server("one")
	garbage := ident.New()
	s.publishRaw(
		bus.Durable{Subject: topology.IntentSubject("install", "alice", garbage), Data: []byte{0xff, 0xff, 0xff}})
	s.publishRaw(bus.Durable{Subject: topology.IntentSubject("install", "alice", "not-an-id"), Data: []byte("?")})

	s.accepted(topology.VerbInstall, install("web", on("one")))

	if r := s.outcome(garbage); r.Refusal.GetCode() != "MALFORMED" || r.Intent != nil {
		t.Errorf("the intent that cannot be read became %v", r)
	}
	s.untilDeadLetters(topology.Intents, 1)
}

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
	for id, want := range map[string]string{
		ident.New(): "NOT_FOUND",
		refused:     "NOT_WITHDRAWABLE",
		s.accepted(topology.VerbDecommission, decommission("one", false)).Id: "NOT_WITHDRAWABLE",
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
