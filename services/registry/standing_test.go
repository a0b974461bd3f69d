package registry

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

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
	want := []string{"invited", "enrolled", "online", "quarantined", "offline", "released", "online"}
	if diff := cmp.Diff(want, names(s.facts(ledger.Server, id))); diff != "" {
		t.Error(diff)
	}
}

func TestARevokedServerEnrolsAgainWithAnotherKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	_, err := ask[*registryv1.InviteServerResponse](s, "InviteServer", &registryv1.InviteServerRequest{Name: "one"})
	if codeOf(err) != "EXISTS" {
		t.Errorf("an invitation of a server with valid credentials: %v", err)
	}
	if now := s.revoke("one"); now.Standing != serverv1.Standing_STANDING_REVOKED {
		t.Errorf("after it was revoked: %v", now)
	}
	for _, method := range []string{"QuarantineServer", "ReleaseServer"} {
		if got := s.code(method, &registryv1.ReleaseServerRequest{Server: "one"}); got != "SERVER_REVOKED" {
			t.Errorf("%s of a revoked server: %s", method, got)
		}
	}
	first := s.inviteAgain("one", id)
	second := s.inviteAgain("one", id)
	if _, err := s.enrol(first, "second key"); codeOf(err) != "UNKNOWN_TOKEN" {
		t.Errorf("with the token before the last one: %v", err)
	}
	if _, err := s.enrol(second, "key of one"); codeOf(err) != "USED_KEY" {
		t.Errorf("with the void key: %v", err)
	}
	if _, err := s.enrol(second, "second key"); err != nil {
		t.Fatal(err)
	}
	now := s.get("one")
	if now.Id != id || now.PublicKey != "second key" || !server.Believed(now) || now.CredentialsExpireAt == nil {
		t.Errorf("after it enrolled again: %v", now)
	}
	if _, err := s.renew(id, "key of one"); codeOf(err) != "OTHER_KEY" {
		t.Errorf("a renewal of the void key: %v", err)
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

// inviteAgain makes a token for a known server.
func (s *site) inviteAgain(name, id string) trust.Token {
	s.t.Helper()
	r := must[*registryv1.InviteServerResponse](s, "InviteServer", &registryv1.InviteServerRequest{Name: name})
	if !r.Again || r.ServerId != id {
		s.t.Errorf("the invitation is for %s, again: %v; want %s", r.ServerId, r.Again, id)
	}
	return s.tokenOf(r)
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
	if _, err := s.renew("01a1fc88-01b0-78a7-8be5-02349c182293", "key"); codeOf(err) != "NOT_ENROLLED" {
		t.Errorf("unknown: %v", err)
	}
}
