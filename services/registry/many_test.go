package registry

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/admission"
)

// machine is a machine without a token.
type machine struct {
	public string
	seed   []byte
	host   string
}

func newMachine(t *testing.T, host string) machine {
	t.Helper()
	public, seed, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	return machine{public, seed, host}
}

// knock asks to join as the machine; signedBy is the key that signs.
func (s *site) knock(m, signedBy machine) (*registryv1.EnrolResponse, error) {
	s.t.Helper()
	seal, err := trust.NewSealKey()
	if err != nil {
		s.t.Fatal(err)
	}
	knock, _ := proto.Marshal(&registryv1.Knock{
		PublicKey: m.public, SealKey: seal.Public(),
		Sysinfo: &serverv1.Sysinfo{Hostname: m.host, Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
	})
	signature, err := trust.SignKnock(signedBy.seed, knock)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := bus.Ask[*registryv1.KnockResponse](ctx, s.ops, topology.KnockSubject(m.public),
		&registryv1.KnockRequest{Knock: knock, Signature: signature})
	if err != nil || len(r.Sealed) == 0 {
		return nil, err
	}
	data, err := seal.Open(r.Sealed, r.SealedBy)
	if err != nil {
		s.t.Fatal(err)
	}
	answer := &registryv1.EnrolResponse{}
	return answer, proto.Unmarshal(data, answer)
}

// untilJoined knocks until the machine has credentials: of two registries, one may answer that did not fold the
// acceptance yet.
func (s *site) untilJoined(m machine) (answer *registryv1.EnrolResponse) {
	s.t.Helper()
	polltest.Eventually(s.t, "the machine has credentials", func() bool {
		var err error
		answer, err = s.knock(m, m)
		return err == nil && answer != nil
	})
	return answer
}

func (s *site) waiting() (all []*registryv1.Waiting) {
	return must[*registryv1.ListLobbyResponse](s, "ListLobby", &registryv1.ListLobbyRequest{}).Waiting
}

func TestAMachineFromTheLobbyJoinsOnceAnOperatorAcceptedItsKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	second, _ := s.registry() // each remembers by itself who waits
	m, other := newMachine(t, "web-1"), newMachine(t, "other")
	if answer, err := s.knock(m, m); answer != nil || err != nil {
		t.Fatalf("before it was accepted: %v, %v", answer, err)
	}
	if _, err := s.knock(m, other); codeOf(err) != "INVALID" {
		t.Errorf("signed by another key: %v", err)
	}
	polltest.Eventually(t, "both have the machine in the lobby", func() bool {
		return s.r.lobby.Waits() == 1 && second.lobby.Waits() == 1
	})
	if all := s.waiting(); len(all) != 1 || all[0].Fingerprint != lobby.Fingerprint(m.public) ||
		all[0].Sysinfo.Hostname != "web-1" {
		t.Fatalf("in the lobby: %v", all)
	}
	q := &registryv1.AcceptLobbyRequest{
		Fingerprints: []string{lobby.Fingerprint(m.public)}, Labels: map[string]string{"rack": "a"},
	}
	accepted := must[*registryv1.AcceptLobbyResponse](s, "AcceptLobby", q).Accepted[0]
	answer := s.untilJoined(m)
	if answer.ServerId != accepted.ServerId || answer.Cell != "main" ||
		answer.UserJwt != "jwt of "+m.public+" for "+accepted.ServerId+" in main" {
		t.Errorf("the answer: %v", answer)
	}
	is := s.get(accepted.ServerId)
	if is.Life != serverv1.Life_LIFE_ALIVE || is.Name != "web-1" || is.Labels["rack"] != "a" ||
		is.LobbyFingerprint != lobby.Fingerprint(m.public) {
		t.Errorf("the server: %v", is)
	}
	for _, f := range s.facts("server", accepted.ServerId)[:2] {
		if f.Actor != "alice" {
			t.Errorf("%s was written by %s", f.Name(), f.Actor)
		}
	}
	again := must[*registryv1.AcceptLobbyResponse](s, "AcceptLobby", q).Accepted[0]
	if !again.Already || again.ServerId != accepted.ServerId {
		t.Errorf("accepted again: %v", again)
	}
	if len(s.waiting()) != 0 {
		t.Errorf("it still waits")
	}
}

func TestAMachineThatWasRejectedIsRefusedForADay(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := newMachine(t, "web-1")
	if _, err := s.knock(m, m); err != nil {
		t.Fatal(err)
	}
	fingerprints := []string{lobby.Fingerprint(m.public)}
	must[*registryv1.RejectLobbyResponse](s, "RejectLobby",
		&registryv1.RejectLobbyRequest{Fingerprints: fingerprints, Reason: "not ours"})
	if _, err := s.knock(m, m); codeOf(err) != "LOBBY_REJECTED" {
		t.Errorf("after it was rejected: %v", err)
	}
	accept := &registryv1.AcceptLobbyRequest{Fingerprints: fingerprints}
	if code := s.code("AcceptLobby", accept); code != "NOT_FOUND" {
		t.Errorf("accepted after it was rejected: %q", code)
	}
	s.skew.Store(int64(25 * time.Hour))
	if _, err := s.knock(m, m); err != nil {
		t.Errorf("a day later: %v", err)
	}
}

func TestManyServersAreInvitedAtOnceAndAgainWithoutHarm(t *testing.T) {
	t.Parallel()
	s := start(t)
	q := &registryv1.InviteServersRequest{}
	for n := range admission.InvitedAtOnce {
		q.Servers = append(q.Servers, &registryv1.InviteServerRequest{
			Name: fmt.Sprintf("web-%d", n), Labels: map[string]string{"n": fmt.Sprint(n)},
		})
	}
	first := must[*registryv1.InviteServersResponse](s, "InviteServers", q).Servers
	token, err := trust.ParseToken(first[7].Token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.enrol(token, "key of web-7"); err != nil {
		t.Fatal(err)
	}
	second := must[*registryv1.InviteServersResponse](s, "InviteServers", q).Servers
	for n := range first {
		switch one, two := first[n], second[n]; {
		case two.ServerId != one.ServerId || !two.Known || one.Known:
			t.Errorf("%s was %v, is %v", one.Name, one, two)
		case (two.Token == "") != (n == 7):
			t.Errorf("%s has the token %q", two.Name, two.Token)
		}
	}
	old, _ := trust.ParseToken(first[8].Token)
	if _, err := s.enrol(old, "key of web-8"); codeOf(err) != "UNKNOWN_TOKEN" {
		t.Errorf("with the earlier token: %v", err)
	}
	next, _ := trust.ParseToken(second[8].Token)
	if _, err := s.enrol(next, "key of web-8"); err != nil {
		t.Errorf("with the later token: %v", err)
	}
	q.Servers[3].Environment = "nowhere"
	q.Servers[3].Name = "another"
	if code := s.code("InviteServers", q); code != "UNKNOWN_ENVIRONMENT" {
		t.Errorf("with one that cannot be: %q", code)
	}
}

func TestServersGetTheirLabelsByRule(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.registry()
	id := s.server("web-1")
	until := func(what, want string) {
		t.Helper()
		polltest.Eventually(t, what, func() bool { return s.get(id).Labels["platform"] == want })
	}
	when := []*intentv1.Condition{{Field: "os", Operator: intentv1.Operator_OPERATOR_IN, Values: []string{"linux"}}}
	set := func(value string) {
		t.Helper()
		s.put(record.Set(&labelrulev1.LabelRule{
			Name: "linux", When: when, Labels: map[string]string{"platform": value},
		}))
	}
	set("gnu")
	until("the label is there", "gnu")
	set("tux")
	until("the label follows its rule", "tux")
	unset := &registryv1.ChangeServerRequest{Server: id, UnsetLabels: []string{"platform"}}
	if code := s.code("ChangeServer", unset); code != "LABEL_BY_RULE" {
		t.Errorf("removing it from the server alone: %q", code)
	}
	must[*registryv1.ChangeServerResponse](s, "ChangeServer",
		&registryv1.ChangeServerRequest{Server: id, SetLabels: map[string]string{"platform": "mine"}})
	until("an operator's label wins", "mine")
	must[*registryv1.ChangeServerResponse](s, "ChangeServer", unset)
	until("the rule's label is back", "tux")
	must[*registryv1.DeleteRecordResponse](s, "DeleteRecord", record.Delete(ledger.LabelRule, "linux", 0))
	until("the label goes with its rule", "")
}
