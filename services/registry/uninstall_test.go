package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/signing"
)

// owned invites a server of an ownership, and returns the answer to its enrolment.
func (s *site) owned(name string, o serverv1.Ownership) (id string, told *registryv1.EnrolResponse) {
	s.t.Helper()
	token := s.tokenOf(
		must[*registryv1.InviteServerResponse](s, "InviteServer",
			&registryv1.InviteServerRequest{Name: name, Ownership: o}),
	)
	answer, err := s.enrol(token, "key of "+name)
	if err != nil {
		s.t.Fatal(err)
	}
	again, err := s.enrol(token, "key of "+name)
	if err != nil || !proto.Equal(answer, again) {
		s.t.Errorf("%s joins again: %v, %v; want %v as before", name, again, err, answer)
	}
	return token.ServerID, answer
}

func TestOwnershipIsRecordedOnceWithTheInvitation(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct {
		name        string
		asked, want serverv1.Ownership
	}{
		{"by-default", serverv1.Ownership_OWNERSHIP_UNSPECIFIED, serverv1.Ownership_OWNERSHIP_MANUAL},
		{"by-hand", serverv1.Ownership_OWNERSHIP_MANUAL, serverv1.Ownership_OWNERSHIP_MANUAL},
		{"by-machine", serverv1.Ownership_OWNERSHIP_PROVISIONED, serverv1.Ownership_OWNERSHIP_PROVISIONED},
	} {
		id, answer := s.owned(c.name, c.asked)
		if answer.Ownership != c.want || answer.TombstoneKey != "tombstone key" ||
			!slices.Equal(answer.ImageKeys, []string{"image key"}) {
			t.Errorf("%s: the answer is %v", c.name, answer)
		}
		other := serverv1.Ownership_OWNERSHIP_MANUAL + serverv1.Ownership_OWNERSHIP_PROVISIONED - c.want
		q := &registryv1.InviteServerRequest{Name: c.name, Ownership: other}
		if got := s.code("InviteServer", q); got != "EXISTS" {
			t.Errorf("%s is invited again as %v: %v", c.name, other, got)
		}
		must[*registryv1.ChangeServerResponse](s, "ChangeServer",
			&registryv1.ChangeServerRequest{Server: id, SetLabels: map[string]string{"ownership": "other"}})
		// Also a fact that no registry would write changes nothing.
		s.append(fact(ledger.Server, id, &serverv1.Invited{Name: c.name, Cell: "main", Ownership: other}))
		if got := s.get(id).Ownership; got != c.want {
			t.Errorf("%s became %v", c.name, got)
		}
	}
}

// All three are requests of admins. No other request has a field for it, so nothing needs authorisation: this fails
// when one is added.
func TestOnlyAnInvitationNamesAnOwnership(t *testing.T) {
	t.Parallel()
	for i := range methods.Len() {
		input := methods.Get(i).Input()
		for n := range input.Fields().Len() {
			f := input.Fields().Get(n)
			if f.Enum() != nil && f.Enum().FullName() == serverv1.Ownership(0).Descriptor().FullName() &&
				input.Name() != "InviteServerRequest" && input.Name() != "CreateTokenRequest" &&
				input.Name() != "AcceptLobbyRequest" {
				t.Errorf("%s can be asked with an ownership", input.FullName())
			}
		}
	}
}

func TestADeathCarriesItsProofInTheSameFact(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web")
	s.accepted(topology.VerbDecommission, decommission("one", false))
	s.do(taskv1.Verb_VERB_REMOVE, s.instance("web"))
	s.untilLife(id, serverv1.Life_LIFE_DEAD)
	empty, lost := s.server("empty"), s.server("lost")
	s.accepted(topology.VerbDecommission, decommission("empty", false))
	s.accepted(topology.VerbDecommission, decommission("lost", true))
	s.untilLife(empty, serverv1.Life_LIFE_DEAD)
	for _, id := range []string{id, empty, lost} {
		facts := s.facts(ledger.Server, id)
		for _, f := range facts[:len(facts)-1] {
			if f.Name() == "dead" {
				t.Errorf("%s is not the last fact about %s", f.Name(), id)
			}
		}
		dead, ok := facts[len(facts)-1].Body.(*serverv1.Dead)
		if p := dead.GetTombstone(); !ok || p.GetServerId() != id || p.GetCell() != "main" ||
			string(p.GetSignature()) != "signed" {
			t.Errorf("%s ends with %v", id, facts[len(facts)-1].Body)
		}
	}
}

// reportReceipt reports as a server that it removed an agent; without an agent, itself.
func (s *site) reportReceipt(server, agent string, sequence uint64) {
	s.t.Helper()
	data, err := proto.Marshal(&reportv1.Report{
		ServerId: server, BootId: "boot", Sequence: sequence,
		Body: &reportv1.Report_Receipt{Receipt: &reportv1.ReceiptReport{Agent: agent, Removed: []*reportv1.Removed{
			{Path: "executor"}, {Path: "cache"}, {Path: "notes.txt", LeftBecause: "not Garrison's", Foreign: true},
		}}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	subject := topology.ReportSubject(topology.ServerAddress{Cell: "main", Server: server}, topology.ReportReceipt)
	if _, err := s.ops.PublishDurable(context.Background(), bus.Durable{Subject: subject, Data: data}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) leaked() (names []string) {
	s.t.Helper()
	for _, x := range must[*registryv1.ListServersResponse](s, "ListServers",
		&registryv1.ListServersRequest{Leaked: true}).Servers {
		names = append(names, x.Name)
	}
	return names
}

func TestADeadServerIsLeakedUntilItsReceiptArrives(t *testing.T) {
	t.Parallel()
	s := start(t)
	alive, _ := s.owned("alive", serverv1.Ownership_OWNERSHIP_MANUAL)
	gone, _ := s.owned("gone", serverv1.Ownership_OWNERSHIP_MANUAL)
	s.owned("taken", serverv1.Ownership_OWNERSHIP_PROVISIONED)
	for _, name := range []string{"gone", "taken"} {
		s.accepted(topology.VerbDecommission, decommission(name, false))
	}
	s.untilLife("gone", serverv1.Life_LIFE_DEAD)
	s.untilLife("taken", serverv1.Life_LIFE_DEAD)
	if got := s.leaked(); len(got) != 1 || got[0] != "gone" {
		t.Fatalf("leaked: %v; want the dead one that a person made", got)
	}
	s.reportReceipt(alive, "", 1) // ignored: the server is alive
	s.reportReceipt(gone, "web", 1)
	s.reportReceipt(gone, "", 2)
	s.reportReceipt(gone, "", 3)
	polltest.Eventually(t, "nothing is leaked", func() bool { return len(s.leaked()) == 0 })
	if x := s.get(gone); x.UninstalledAt == nil || x.LeftPaths != 1 {
		t.Errorf("the error is %v", x)
	}
	if got := names(s.facts(ledger.Server, gone)); got[len(got)-1] != "uninstalled" || got[len(got)-2] != "dead" {
		t.Errorf("facts %v", got)
	}
	if x := s.get(alive); x.UninstalledAt != nil || x.Life != serverv1.Life_LIFE_ALIVE {
		t.Errorf("the living one became %v", x)
	}
}

func TestARegistryWithoutKeysRecordsNoDeath(t *testing.T) {
	t.Parallel()
	var none signing.Tombstones
	death := []ledger.Draft{fact(ledger.Server, ident.New(), &serverv1.Dead{})}
	if err := none.Sign(death, func(string) string { return "main" }); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the error is %v", err)
	}
	if err := none.Sign([]ledger.Draft{fact(ledger.Server, ident.New(), &serverv1.Online{})}, nil); err != nil {
		t.Error(err)
	}
}

// A leaked server is forgotten only on a request that accepts the leak; the answer names the leaks.
func TestALeakedServerIsForgottenOnlyAsALeak(t *testing.T) {
	t.Parallel()
	s := start(t)
	gone, _ := s.owned("gone", serverv1.Ownership_OWNERSHIP_MANUAL)
	s.report(topology.ReportAgents, agentsOf(gone, 1, stray("cron", 1)))
	polltest.Eventually(t, "it is found", func() bool { return s.foundServers() == 1 })
	s.accepted(topology.VerbDecommission, decommission("gone", false))
	s.untilLife(gone, serverv1.Life_LIFE_DEAD)
	if code := s.code("ForgetServer", &registryv1.ForgetServerRequest{Server: gone}); code != "LEAKED" {
		t.Errorf("code %q, want LEAKED", code)
	}
	s.reportReceipt(gone, "", 2)
	polltest.Eventually(t, "its receipt is recorded", func() bool { return s.get(gone).UninstalledAt != nil })
	if code := s.code("ForgetServer", &registryv1.ForgetServerRequest{Server: gone}); code != "LEAKED" {
		t.Errorf("with an unmanaged agent at its death: code %q, want LEAKED", code)
	}
	ask := &registryv1.ForgetServerRequest{Server: gone, Leak: true}
	l := must[*registryv1.ForgetServerResponse](s, "ForgetServer", ask).Leaks
	if len(l) != 1 || l[0].Kind != serverv1.DutyKind_DUTY_KIND_FOUND || !strings.Contains(l[0].Reason, "cron") {
		t.Errorf("left %v, want the agent that was found", l)
	}
}

// While the end of a server cannot be signed, the server shows the reason; once the end is written, it does not.
func TestADeathThatCannotBeSignedShowsTheReason(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	s.unsigned.Store(true)
	s.accepted(topology.VerbDecommission, decommission("one", false))
	polltest.Eventually(t, "the reason is shown", func() bool {
		d := s.get(id).Duties
		return len(d) == 1 && d[0].Kind == serverv1.DutyKind_DUTY_KIND_DEATH &&
			strings.Contains(d[0].Reason, "the tombstone key cannot be read")
	})
	s.unsigned.Store(false)
	s.untilLife(id, serverv1.Life_LIFE_DEAD)
	for _, d := range s.get(id).Duties {
		if d.Kind == serverv1.DutyKind_DUTY_KIND_DEATH {
			t.Errorf("it is dead, and its end is still waited for: %v", d)
		}
	}
}

// Ownership says what becomes of the machine at the end. It comes with each way in, and is manual where none is named.
func TestEveryWayInRecordsTheOwnership(t *testing.T) {
	t.Parallel()
	s := start(t)
	ways := map[string]func(name string, o serverv1.Ownership) string{
		"a pooled token": func(name string, o serverv1.Ownership) string {
			token := s.pooled(&registryv1.CreateTokenRequest{Name: name, Uses: 1, Ownership: o})
			answer, err := s.joinWith(token, "key of "+name, name)
			if err != nil {
				t.Fatal(err)
			}
			return answer.ServerId
		},
		"the lobby": func(name string, o serverv1.Ownership) string {
			m := newMachine(t, name)
			if _, err := s.knock(m, m); err != nil {
				t.Fatal(err)
			}
			q := &registryv1.AcceptLobbyRequest{Fingerprints: []string{lobby.Fingerprint(m.public)}, Ownership: o}
			return must[*registryv1.AcceptLobbyResponse](s, "AcceptLobby", q).Accepted[0].ServerId
		},
		"an import": func(name string, o serverv1.Ownership) string {
			one := &registryv1.InviteServerRequest{Name: name, Ownership: o}
			q := &registryv1.InviteServersRequest{Servers: []*registryv1.InviteServerRequest{one}}
			return must[*registryv1.InviteServersResponse](s, "InviteServers", q).Servers[0].ServerId
		},
	}
	for way, join := range ways {
		for asked, want := range map[serverv1.Ownership]serverv1.Ownership{
			serverv1.Ownership_OWNERSHIP_UNSPECIFIED: serverv1.Ownership_OWNERSHIP_MANUAL,
			serverv1.Ownership_OWNERSHIP_PROVISIONED: serverv1.Ownership_OWNERSHIP_PROVISIONED,
		} {
			name := strings.ReplaceAll(fmt.Sprintf("%s-%d", way, asked), " ", "-")
			if have := s.get(join(name, asked)).Ownership; have != want {
				t.Errorf("by %s with %v: %v, want %v", way, asked, have, want)
			}
		}
	}
}
