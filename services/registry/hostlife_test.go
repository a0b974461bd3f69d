package registry

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

func TestARenamedServerKeepsItsIdAndTakesNoNameOfAnother(t *testing.T) {
	t.Parallel()
	s := start(t)
	one, two := s.server("one"), s.server("two")
	rename := func(server, name string) *registryv1.ChangeServerRequest {
		return &registryv1.ChangeServerRequest{Server: server, Name: proto.String(name)}
	}
	for name, want := range map[string]string{
		"two": "EXISTS", "all": "BAD_NAME", "": "BAD_NAME", "sp ace": "BAD_NAME", one: "BAD_NAME",
	} {
		if got := s.code("ChangeServer", rename("one", name)); got != want {
			t.Errorf("renamed to %q: %s, want %s", name, got, want)
		}
	}
	must[*registryv1.ChangeServerResponse](s, "ChangeServer", &registryv1.ChangeServerRequest{
		Server: "one", SetLabels: map[string]string{"rack": "a"},
	})
	for range 2 { // the second changes nothing
		r := must[*registryv1.ChangeServerResponse](s, "ChangeServer", rename(one, "first"))
		if r.Server.Id != one || r.Server.Name != "first" || r.Server.Labels["rack"] != "a" {
			t.Errorf("renamed: %v", r.Server)
		}
	}
	if n := len(s.facts(ledger.Server, one)); n != 4 { // invited, enrolled, changed, changed
		t.Errorf("%d facts: %v", n, names(s.facts(ledger.Server, one)))
	}
	if got := s.code("GetServer", &registryv1.GetServerRequest{Server: "one"}); got != "UNKNOWN_SERVER" {
		t.Errorf("its old name: %s", got)
	}
	must[*registryv1.ChangeServerResponse](s, "ChangeServer", rename(two, "one")) // the name is free
}

// Two registries may admit one name at the same moment; both views take the first in the ledger.
func TestOfTwoRenamesToOneNameTheViewTakesTheFirst(t *testing.T) {
	t.Parallel()
	s := start(t)
	one, two := s.server("one"), s.server("two")
	s.append(
		fact(ledger.Server, one, &serverv1.Changed{Name: "same"}),
		fact(ledger.Server, two, &serverv1.Changed{Name: "same"}),
	)
	for id, want := range map[string]string{one: "same", two: "two"} {
		r := must[*registryv1.GetServerResponse](s, "GetServer", &registryv1.GetServerRequest{Server: id})
		if r.Server.Name != want {
			t.Errorf("it is named %q, want %q", r.Server.Name, want)
		}
	}
}

func TestTheMachineOfAServerIsReplacedOnceItIsGone(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	s.firstBeat(id, "boot")
	s.untilPresence(id, serverv1.Presence_PRESENCE_ONLINE)
	if got := s.code("ReplaceServer", &registryv1.ReplaceServerRequest{Server: "one"}); got != "SERVER_ONLINE" {
		t.Errorf("while it is online: %s", got)
	}
	invited := s.invite("two")
	for name, want := range map[string]string{"two": "NOT_ALIVE", "three": "UNKNOWN_SERVER"} {
		if got := s.code("ReplaceServer", &registryv1.ReplaceServerRequest{Server: name, Force: true}); got != want {
			t.Errorf("replace %s: %s, want %s", name, got, want)
		}
	}
	if _, err := s.enrol(invited, "key of two"); err != nil {
		t.Errorf("the token of another server: %v", err)
	}

	var tokens []trust.Token
	for range 2 { // another request makes another token
		r := must[*registryv1.ReplaceServerResponse](s, "ReplaceServer",
			&registryv1.ReplaceServerRequest{Server: "one", Force: true, Reason: "board broke"})
		if r.Server.Id != id || r.Server.Standing != serverv1.Standing_STANDING_REVOKED || r.Server.Name != "one" {
			t.Errorf("replaced: %v", r.Server)
		}
		token, err := trust.ParseToken(r.Token)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if _, err := s.enrol(tokens[0], "key of the new machine"); err == nil {
		t.Error("a token that another one replaced still admits")
	}
	if _, err := s.enrol(tokens[1], "key of one"); codeOf(err) != "USED_KEY" {
		t.Errorf("the old machine's key: %v", err)
	}
	if _, err := s.enrol(tokens[1], "key of the new machine"); err != nil {
		t.Fatal(err)
	}
	r := must[*registryv1.GetServerResponse](s, "GetServer", &registryv1.GetServerRequest{Server: "one"})
	if r.Server.Id != id || r.Server.Standing != serverv1.Standing_STANDING_ENROLLED {
		t.Errorf("enrolled: %v", r.Server)
	}
	if have := names(s.facts(ledger.Server, id)); !slices.Contains(have, "revoked") {
		t.Errorf("facts: %v", have)
	}
}

func TestAServerMayBeInvitedUnderAnIDThatNoServerHadBefore(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.registry()
	const id = "4c4c4544-0051-4510-804e-b4c04f5a4532"
	q := &registryv1.InviteServerRequest{Name: "4QENZE2", ServerId: id}
	if r := must[*registryv1.InviteServerResponse](s, "InviteServer", q); r.ServerId != id {
		t.Errorf("id %s", r.ServerId)
	}
	if got := s.code("InviteServer", &registryv1.InviteServerRequest{Name: "other", ServerId: id}); got != "EXISTS" {
		t.Errorf("a second server with the id: %s", got)
	}
	must[*registryv1.ForgetServerResponse](s, "ForgetServer", &registryv1.ForgetServerRequest{Server: id})
	if got := s.code("InviteServer", q); got == "none" {
		t.Error("the id of a forgotten server is taken again")
	}
}

const via = "ssh root@gone"

// cleanUp records how an attempt ended, some seconds after a fixed time.
func cleanUp(server string, seconds int64, refusal *apiv1.Refusal) *registryv1.RecordCleanUpRequest {
	return &registryv1.RecordCleanUpRequest{Server: server, Via: via, Outcome: &reportv1.CleanUpOutcome{
		ServerId: server, At: &timestamppb.Timestamp{Seconds: 1_700_000_000 + seconds}, Removed: 7, Left: 2,
		Refusal: refusal,
	}}
}

func TestACleanUpIsRecordedWithItsActor(t *testing.T) {
	t.Parallel()
	s := start(t)
	id, _ := s.owned("gone", serverv1.Ownership_OWNERSHIP_MANUAL)
	s.accepted(topology.VerbDecommission, decommission("gone", true))

	unreachable := &apiv1.Refusal{Code: "SSH_FAILED", Message: "no\nroute " + strings.Repeat("x", 2000)}
	x := must[*registryv1.RecordCleanUpResponse](s, "RecordCleanUp", cleanUp(id, 1, unreachable)).Server
	if c := x.CleanUp; c.GetCode() != "SSH_FAILED" || c.GetVia() != via || c.GetActor() == "" ||
		!strings.HasPrefix(c.GetReason(), "no route x") ||
		len(c.GetReason()) > request.MaxReason {
		t.Errorf("after a failure: %v", c)
	}
	if got := s.leaked(); x.UninstalledAt != nil || len(got) != 1 {
		t.Errorf("after a failure %v are leaked, and %v", got, x.UninstalledAt)
	}

	for range 2 { // a lost answer is requested again
		x = must[*registryv1.RecordCleanUpResponse](s, "RecordCleanUp", cleanUp(id, 2, nil)).Server
	}
	if c := x.CleanUp; c.GetCode() != "" || x.UninstalledAt == nil || x.LeftPaths != 2 || len(s.leaked()) != 0 {
		t.Errorf("clean, with the duties %v; leaked %v", x, s.leaked())
	}
	facts := s.facts(ledger.Server, id)
	if got := names(facts); strings.Join(got[len(got)-3:], " ") != "dead clean-up-failed uninstalled" {
		t.Errorf("facts %v", got)
	}
	last := facts[len(facts)-1]
	if b, ok := last.Body.(*serverv1.Uninstalled); !ok || b.Removed != 7 || b.Left != 2 || b.Via != via ||
		last.Actor != x.CleanUp.Actor ||
		last.Actor == ledger.Registry {
		t.Errorf("the fact of %s holds %v", last.Actor, last.Body)
	}
}

func reinstall(server string) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Reinstall{Reinstall: &intentv1.Reinstall{Server: server}}}
}

// emptyBeat beats as an executor that was emptied for a reinstall.
func (s *site) emptyBeat(server, reset string) {
	s.t.Helper()
	data, err := proto.Marshal(&reportv1.Beat{ServerId: server, BootId: "boot", ResetId: reset})
	if err != nil {
		s.t.Fatal(err)
	}
	address := topology.ServerAddress{Cell: "main", Server: server}
	if err := s.ops.Publish(topology.BeatSubject(address), data); err != nil {
		s.t.Fatal(err)
	}
}

// untilReinstalled beats until the reinstall of a server has ended.
func (s *site) untilReinstalled(server, reset string) {
	s.t.Helper()
	polltest.Eventually(s.t, "it is reinstalled", func() bool {
		s.emptyBeat(server, reset)
		return s.get(server).Reinstall == nil
	})
}

func TestAServerIsReinstalledOnceItsExecutorIsEmptyAndItsInstancesAreGone(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web", "db")
	r := s.accepted(topology.VerbReinstall, reinstall("one"))
	if have := s.get(id); have.Reinstall.GetIntentId() != r.Id || have.Reinstall.GetActor() != "alice" {
		t.Fatalf("it is %v", have.Reinstall)
	}
	if again := s.accepted(topology.VerbReinstall, reinstall("one")); again.Changed != 0 || again.Already != 1 {
		t.Errorf("asked again: %+v; want nothing", countsOf(again))
	}
	if have := s.code("WithdrawIntent", &registryv1.WithdrawIntentRequest{IntentId: r.Id}); have != "NOT_WITHDRAWABLE" {
		t.Errorf("withdrawn: %s", have)
	}
	refused := s.outcome(s.publish(topology.VerbInstall, install("web", on("one"))))
	if refused.GetRefusal().GetCode() != "SERVER_REINSTALLING" {
		t.Errorf("an install meanwhile: %v", refused)
	}

	// An executor that says too early that it is empty ends nothing.
	s.do(taskv1.Verb_VERB_REMOVE, s.instance("web"))
	polltest.Eventually(t, "one is gone", func() bool { s.emptyBeat(id, r.Id); return s.instance("web") == nil })
	if s.get(id).Reinstall == nil {
		t.Fatal("it is reinstalled although an instance is left")
	}
	s.do(taskv1.Verb_VERB_REMOVE, s.instance("db"))
	polltest.Eventually(t, "both are gone", func() bool { return s.instance("db") == nil })
	s.untilReinstalled(id, r.Id)

	have := names(s.facts(ledger.Server, id))
	n := slices.Index(have, "reinstalling")
	count := map[string]int{}
	for _, name := range have {
		count[name]++
	}
	if n < 0 || count["reinstalling"] != 1 || count["reinstalled"] != 1 {
		t.Errorf("the facts are %v", have)
	}
	s.accepted(topology.VerbInstall, install("web", on("one")))
}
