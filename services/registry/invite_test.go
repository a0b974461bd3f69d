package registry

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// A token has room for fingerprints only; a server that is in gets the CAs themselves, whenever they change.
func TestServersLearnTheCAsOfTheBus(t *testing.T) {
	t.Parallel()
	s := start(t)
	dir := t.TempDir()
	ca, err := trust.OpenCA(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.ca = ca.Bundle()
	token := s.invite("one")
	want, err := trust.Pins(s.ca)
	if err != nil || !slices.Equal(token.Pins, want) {
		t.Errorf("the token has the pins %v, %v; want %v", token.Pins, err, want)
	}
	if answer, err := s.enrol(token, "mine"); err != nil || answer.BusCa != string(s.ca) {
		t.Errorf("the answer to the join: %v, %v", answer, err)
	}
	if err := ca.Change(time.Now()); err != nil {
		t.Fatal(err)
	}
	s.ca = ca.Bundle()
	if answer, err := s.renew(token.ServerID, "mine"); err != nil || answer.BusCa != string(s.ca) {
		t.Errorf("the answer to a renewal: %v, %v", answer, err)
	}
}

func TestASecretIsNotInTheLedger(t *testing.T) {
	t.Parallel()
	s := start(t)
	token := s.invite("one")
	for _, f := range s.facts(ledger.Server, token.ServerID) {
		data, err := proto.Marshal(f.Body)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(token.Secret)) {
			t.Errorf("the fact %s holds the secret", f.Name())
		}
	}
}

func TestOfManyKeysAtOnceOneIsAdmitted(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.registry()
	token := s.invite("one")
	var mu sync.Mutex
	outcomes := map[string]int{}
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			_, err := s.enrol(token, fmt.Sprintf("key-%d", n))
			mu.Lock()
			defer mu.Unlock()
			outcomes[codeOf(err)]++
		})
	}
	all.Wait()
	if outcomes["none"] != 1 || outcomes["USED_TOKEN"] != 7 {
		t.Errorf("outcomes %v; want one admitted and seven USED_TOKEN", outcomes)
	}
}

func TestManyInvitationsUnderOneNameLeaveOne(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.registry()
	var mu sync.Mutex
	outcomes := map[string]int{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := ask[*registryv1.InviteServerResponse](s, "InviteServer",
				&registryv1.InviteServerRequest{Name: "one"})
			mu.Lock()
			defer mu.Unlock()
			outcomes[codeOf(err)]++
		})
	}
	all.Wait()
	if outcomes["none"] != 1 || outcomes["EXISTS"] != 7 {
		t.Errorf("outcomes %v; want one invited and seven EXISTS", outcomes)
	}
	_, err := ask[*registryv1.InviteServerResponse](s, "InviteServer", &registryv1.InviteServerRequest{Name: "one"})
	if try := fault.RefusalOf(err).GetTry(); !strings.Contains(try, "garrison server forget one") {
		t.Errorf("an invitation that was not used: try %q", try)
	}
}

func (s *site) quarantine(name string) *serverv1.Server {
	s.t.Helper()
	return must[*registryv1.QuarantineServerResponse](s, "QuarantineServer",
		&registryv1.QuarantineServerRequest{Server: name, Reason: "odd traffic"}).Server
}

func (s *site) release(name string) *serverv1.Server {
	s.t.Helper()
	return must[*registryv1.ReleaseServerResponse](s, "ReleaseServer",
		&registryv1.ReleaseServerRequest{Server: name, Reason: "a test"}).Server
}

func (s *site) revoke(name string) *serverv1.Server {
	s.t.Helper()
	return must[*registryv1.RevokeServerResponse](s, "RevokeServer",
		&registryv1.RevokeServerRequest{Server: name, Reason: "stolen"}).Server
}

// renew requests that a server's key is signed again.
func (s *site) renew(id, key string) (*registryv1.RenewResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return bus.Ask[*registryv1.RenewResponse](ctx, s.ops,
		topology.RenewSubject(topology.ServerAddress{Cell: "main", Server: id}),
		&registryv1.RenewRequest{ServerId: id, PublicKey: key})
}

func TestAQuarantinedServerIsNotBelievedUntilItIsReleased(t *testing.T) {
	t.Parallel()
	s := startBeating(t, 50*time.Millisecond)
	id := s.server("one")
	s.beating(id, "boot")
	s.untilPresence(id, serverv1.Presence_PRESENCE_ONLINE)
	after := s.quarantine("one")
	if e := after.Exclusion; after.Standing != serverv1.Standing_STANDING_QUARANTINED ||
		e.GetReason() != "odd traffic" || e.GetActor() != "alice" || e.GetSince() == nil {
		t.Errorf("after the quarantine: %v, %v", after.Standing, e)
	}
	s.untilPresence(id, serverv1.Presence_PRESENCE_OFFLINE) // although it beats
	if have := s.get(id); have.Exclusion.GetReason() != "odd traffic" {
		t.Errorf("offline, it lost the reason: %v", have.Exclusion)
	}
	r := must[*registryv1.ListUnknownServersResponse](s, "ListUnknownServers", &registryv1.ListUnknownServersRequest{})
	if len(r.Servers) != 1 || r.Servers[0].Code != "SERVER_QUARANTINED" {
		t.Errorf("the senders that are not believed: %v", r.Servers)
	}
	s.quarantine("one")
	s.release("one")
	s.release("one")
	s.untilPresence(id, serverv1.Presence_PRESENCE_ONLINE)
	have := names(s.facts(ledger.Server, id))
	if slices.Contains(have[slices.Index(have, "quarantined"):slices.Index(have, "released")], "online") {
		t.Errorf("it was online in quarantine: %v", have)
	}
	have = slices.DeleteFunc(have, func(kind string) bool { // a busy machine is late with beats
		return kind == "online" || kind == "offline"
	})
	if diff := cmp.Diff([]string{"invited", "enrolled", "quarantined", "released"}, have); diff != "" {
		t.Error(diff)
	}
}

func TestAServerCannotClaimTheKeyOfAnother(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.server("victim")
	token := s.invite("thief")
	if _, err := s.enrol(token, "key of victim"); codeOf(err) != "USED_KEY" {
		t.Errorf("with the key of another server: %v, want USED_KEY", err)
	}
	if _, err := s.enrol(token, "its own key"); err != nil {
		t.Errorf("with its own key: %v", err)
	}
}

func TestAServerRenewsItsCredentialsWhileItIsBelieved(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	before := s.get(id).CredentialsExpireAt.AsTime()
	if left := time.Until(before); left < 89*24*time.Hour || left > 91*24*time.Hour {
		t.Errorf("its credentials expire in %v", left)
	}
	if _, err := s.renew(id, "key of one"); err != nil { // so early, it extends nothing
		t.Error(err)
	}
	s.skew.Store(int64(45 * 24 * time.Hour))
	for range 2 {
		if r, err := s.renew(id, "key of one"); err != nil || r.UserJwt == "" {
			t.Errorf("renewed to %v, %v", r, err)
		}
	}
	if now := s.get(id).CredentialsExpireAt.AsTime(); now.Sub(before) < 44*24*time.Hour {
		t.Errorf("renewed from %v to %v", before, now)
	}
	facts := names(s.facts(ledger.Server, id))
	if want := []string{"invited", "enrolled", "credentials-renewed"}; !slices.Equal(facts, want) {
		t.Errorf("facts %v, want %v", facts, want)
	}
	s.quarantine("one")
	if _, err := s.renew(id, "key of one"); codeOf(err) != "SERVER_QUARANTINED" {
		t.Errorf("in quarantine: %v", err)
	}
	s.revoke("one")
	if _, err := s.renew(id, "key of one"); codeOf(err) != "SERVER_REVOKED" {
		t.Errorf("revoked: %v", err)
	}
	for _, method := range []string{"QuarantineServer", "ReleaseServer"} {
		if have := s.code(method, &registryv1.ReleaseServerRequest{Server: "one"}); have != code.ServerRevoked {
			t.Errorf("%s of a revoked server: %s", method, have)
		}
	}
	if _, err := s.renew("01a1fc88-01b0-78a7-8be5-02349c182293", "key"); codeOf(err) != "NOT_ENROLLED" {
		t.Errorf("unknown: %v", err)
	}
}

// holdSite is a site with three servers and an agent at version 1.0.0. Its version 1.1.0 is active.
func holdSite(t *testing.T) (s *site, servers []string) {
	s = start(t)
	s.channel("release", true)
	s.agent("beacon")
	s.image("beacon", "1.0.0", "release")
	for _, name := range []string{"web-1", "web-2", "db-1"} {
		servers = append(servers, s.server(name))
	}
	s.accepted(topology.VerbInstall, &intentv1.Intent{Note: "OPS-1", Ask: &intentv1.Intent_Install{
		Install: &intentv1.Install{Agent: "beacon", On: &intentv1.Selector{All: true}},
	}})
	s.image("beacon", "1.1.0", "release")
	return s, servers
}

// The rows of an answer are filled again for later ones.
func TestAListShowsNothingOfAnotherOne(t *testing.T) {
	t.Parallel()
	s, _ := holdSite(t)
	s.put(record.Set(&holdv1.Hold{Agent: "beacon", On: on("web-1")}))
	list := func(server string) (*registryv1.ListInstancesResponse, error) {
		return ask[*registryv1.ListInstancesResponse](s, "ListInstances",
			&registryv1.ListInstancesRequest{Server: server})
	}
	var each sync.WaitGroup
	defer each.Wait()
	for _, server := range []string{"web-1", "web-2", ""} {
		want, err := list(server)
		if err != nil || len(want.Instances) == 0 {
			t.Fatalf("list of %q: %v, %v", server, want, err)
		}
		each.Go(func() {
			for range 100 {
				if have, err := list(server); err != nil || !proto.Equal(have, want) {
					t.Errorf("list of %q: %v, %v; want %v", server, have, err, want)
					return
				}
			}
		})
	}
}

// Names of hosts have no case, so two that differ in case only would be one machine for everybody else.
func TestAServerNameHasNoCase(t *testing.T) {
	t.Parallel()
	s := start(t)
	id, other := s.server("Web-1"), s.server("web-2")
	name := "WEB-1"
	for method, q := range map[string]proto.Message{
		"InviteServer": &registryv1.InviteServerRequest{Name: name},
		"InviteServers": &registryv1.InviteServersRequest{
			Servers: []*registryv1.InviteServerRequest{{Name: "a"}, {Name: "A"}},
		},
		"ChangeServer": &registryv1.ChangeServerRequest{Server: other, Name: &name},
	} {
		if got := s.code(method, q); got != code.Exists {
			t.Errorf("%s of a name that differs in case: %v, want EXISTS", method, got)
		}
	}
	_, err := ask[*registryv1.InviteServerResponse](s, "InviteServer", &registryv1.InviteServerRequest{Name: name})
	if !strings.Contains(fmt.Sprint(err), `"Web-1"`) {
		t.Errorf("%v, want that it names the first one", err)
	}
	found, err := ask[*registryv1.GetServerResponse](s, "GetServer", &registryv1.GetServerRequest{Server: name})
	if err != nil || found.GetServer().GetId() != id {
		t.Errorf("found %v, %v, want the server that has the name", found, err)
	}
	must[*registryv1.ChangeServerResponse](s, "ChangeServer", &registryv1.ChangeServerRequest{Server: id, Name: &name})
}

func TestExpiredInvitationsAreListedAndCounted(t *testing.T) {
	s := start(t)
	s.invite("one")
	s.server("two")
	list := &registryv1.ListServersRequest{Trouble: code.ExpiredToken}
	for _, want := range []int{0, 1} {
		listed := must[*registryv1.ListServersResponse](s, "ListServers", list)
		counted := must[*registryv1.CountServersResponse](s, "CountServers",
			&registryv1.CountServersRequest{Filter: list})
		if len(listed.Servers) != want || int(counted.Counts.Total) != want {
			t.Errorf("%d listed, %d counted; want %d", len(listed.Servers), counted.Counts.Total, want)
		}
		s.skew.Store(int64(2 * time.Hour))
	}
}
