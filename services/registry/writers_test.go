package registry

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// The page about security names the bound of each role, with the budgets that hold.
func TestThePageTellsHowMuchEachRoleMayWrite(t *testing.T) {
	text, err := os.ReadFile("../../deploy/docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "<!-- writers: begin -->")
	page, _, _ = strings.Cut(page, "<!-- writers: end -->")
	for _, want := range []string{
		fmt.Sprintf("%d MiB, `--server-budget`", DefaultServerBudget>>20),
		fmt.Sprintf("%d GiB, `--user-budget`", DefaultUserBudget>>30),
		fmt.Sprintf("%d MiB, `--reporter-budget`", DefaultReporterBudget>>20),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no row tells %q", want)
		}
	}
	for _, role := range topology.Roles {
		if !strings.Contains(page, string(role)) {
			t.Errorf("no row is about the role %s", role)
		}
	}
}

// labelled changes the labels of a server, which is a fact for each call.
func (s *site) labelled(id, value string) string {
	return s.code("ChangeServer", &registryv1.ChangeServerRequest{Server: id, SetLabels: map[string]string{"a": value}})
}

func TestAUserThatUsedUpTheBudgetIsRefusedAndNamed(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.stop()
	s.limits.User = 20_000
	s.r, s.stop = s.registry()
	id := s.server("one")
	have := "none"
	for n := 0; n < 60 && have == "none"; n++ {
		have = s.labelled(id, string(rune('a'+n%2)))
	}
	if have != code.UserBudget {
		t.Fatalf("the last request: %q; want %s", have, code.UserBudget)
	}
	refused := s.outcome(s.publish(topology.VerbInstall, install("web", on("one"))))
	if refused.GetRefusal().GetCode() != code.UserBudget {
		t.Errorf("an intent: %v", refused)
	}
	over := must[*registryv1.ListWritersResponse](s, "ListWriters", &registryv1.ListWritersRequest{Over: true}).Writers
	if len(over) != 1 || over[0].Actor != "alice" || over[0].Bytes < s.limits.User {
		t.Errorf("over the budget are %v; want alice", over)
	}
	stop := &registryv1.QuarantineServerRequest{Server: id, Reason: "mad"}
	if have := s.code("QuarantineServer", stop); have != "none" {
		t.Errorf("a quarantine is refused: %s", have)
	}
	again, _ := s.registry() // a restart forgets nothing, and replicas agree
	polltest.Eventually(t, "another registry knows it", func() (is bool) {
		again.follower.Read(func() { is = again.records.OverBudget("alice", "hold", 1) != nil })
		return is
	})
}

// A part of the budget is kept for what takes back.
func TestAUserThatUsedUpTheBudgetTakesBack(t *testing.T) {
	t.Parallel()
	s := startBeating(t, time.Hour)
	for _, agent := range []string{"web", "db"} {
		s.agent(agent)
	}
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	s.image("db", "1.0.0", "release")
	s.server("one")
	s.comeOnline()
	withdrawn := s.accepted(topology.VerbInstall, install("db", on("one"))).Id
	q := &intentv1.Rollout{
		Steps: []*intentv1.Step{{Change: &intentv1.Step_Install{Install: &intentv1.Install{Agent: "web"}}}},
		On:    on("one"),
	}
	rollout := s.accepted(topology.VerbRollout, &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: q}}).Id
	s.put(record.Set(&holdv1.Hold{Agent: "db", On: on("one")}))
	for n := range 50 { // so that an eighth is some facts
		s.labelled("one", strconv.Itoa(n))
	}
	used := must[*registryv1.ListWritersResponse](s, "ListWriters", &registryv1.ListWritersRequest{}).Writers[0].Bytes
	s.stop()
	s.limits.User = used
	s.r, s.stop = s.registry()
	if have := s.labelled("one", "x"); have != code.UserBudget {
		t.Fatalf("a change: %q; want %s", have, code.UserBudget)
	}
	unhold := record.Delete(ledger.Hold, "", 0)
	unhold.Agent, unhold.On = "db", on("one")
	for method, q := range map[string]proto.Message{
		"DeleteRecord":   unhold,
		"WithdrawIntent": &registryv1.WithdrawIntentRequest{IntentId: withdrawn},
	} {
		if have := s.code(method, q); have != "none" {
			t.Errorf("%s: %s", method, have)
		}
	}
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: rollout}}}
	s.accepted(topology.VerbRollout, undo)
	if have := s.labelled("one", "x"); have != code.UserBudget {
		t.Errorf("a change after it: %q; want %s", have, code.UserBudget)
	}
}
