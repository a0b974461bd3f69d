package registry

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/admission"
)

// pooled makes a token for many servers.
func (s *site) pooled(q *registryv1.CreateTokenRequest) trust.Token {
	s.t.Helper()
	token, err := trust.ParseToken(must[*registryv1.CreateTokenResponse](s, "CreateToken", q).Secret)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// joinWith enrols a server with a pooled token and returns what only it can read.
func (s *site) joinWith(token trust.Token, key, host string) (*registryv1.EnrolResponse, error) {
	seal, err := trust.NewSealKey()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	subject := topology.EnrolSubject(topology.ServerAddress{Cell: token.Cell, Server: token.Pool})
	sealed, err := bus.Ask[*registryv1.EnrolResponse](ctx, s.ops, subject, &registryv1.EnrolRequest{
		ServerId: token.Pool, Secret: token.Secret, PublicKey: key, SealKey: seal.Public(),
		Sysinfo: &serverv1.Sysinfo{Hostname: host, Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
	})
	if err != nil {
		return nil, err
	}
	data, err := seal.Open(sealed.Sealed, sealed.SealedBy)
	if err != nil {
		s.t.Fatal(err)
	}
	answer := &registryv1.EnrolResponse{}
	if err := proto.Unmarshal(data, answer); err != nil {
		s.t.Fatal(err)
	}
	return answer, nil
}

func TestManyServersJoinWithOneToken(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.put(record.Create(&environmentv1.Environment{Name: "prod"}))
	token := s.pooled(&registryv1.CreateTokenRequest{
		Name: "rack-a", Uses: 3, Environment: "prod", Labels: map[string]string{"rack": "a"},
	})
	first, err := s.joinWith(token, "key 1", "Web_1.Example")
	if err != nil || first.UserJwt != "jwt of key 1 for "+first.ServerId+" in main" {
		t.Fatalf("the first: %v, %v", first, err)
	}
	if again, err := s.joinWith(token, "key 1", "other"); err != nil || !proto.Equal(first, again) {
		t.Errorf("the first again: %v, %v", again, err)
	}
	second, err := s.joinWith(token, "key 2", "web-1.example")
	if err != nil {
		t.Fatal(err)
	}
	for id, name := range map[string]string{first.ServerId: "web-1.example", second.ServerId: "web-1.example-2"} {
		is := must[*registryv1.GetServerResponse](s, "GetServer", &registryv1.GetServerRequest{Server: id}).Server
		if is.Name != name || is.Environment != "prod" || is.Labels["rack"] != "a" || is.Token != "rack-a" ||
			is.Life != serverv1.Life_LIFE_ALIVE {
			t.Errorf("server %s: %v", name, is)
		}
	}
	if _, err := s.joinWith(token, "key 3", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.joinWith(token, "key 4", "web-4"); codeOf(err) != "TOKEN_USED_UP" {
		t.Errorf("the fourth: %v", err)
	}
	if again, err := s.joinWith(token, "key 1", "x"); err != nil || again.ServerId != first.ServerId {
		t.Errorf("the first, after the token was used up: %v, %v", again, err)
	}
	shown := must[*registryv1.ListTokensResponse](s, "ListTokens", &registryv1.ListTokensRequest{}).Tokens[0]
	if shown.Used != 3 || shown.State != tokenv1.State_STATE_USED_UP ||
		shown.SecretSha256 != nil || shown.GuestKey != "" {
		t.Errorf("the token is shown as %v", shown)
	}
	all := must[*registryv1.ListServersResponse](s, "ListServers", &registryv1.ListServersRequest{Token: "rack-a"})
	if len(all.Servers) != 3 {
		t.Errorf("%d servers came by the token, want 3", len(all.Servers))
	}
}

// Machines behind one address join at once, and only requests that admit no server are dropped.
func TestARackJoinsAtOnceAndRepeatedRequestsArePaced(t *testing.T) {
	t.Parallel()
	const rack = 4 * admission.IdleASecond
	s := start(t)
	token := s.pooled(&registryv1.CreateTokenRequest{Name: "rack-a", Uses: rack})
	var all sync.WaitGroup
	for n := range rack {
		all.Go(func() {
			if _, err := s.joinWith(token, fmt.Sprint("key ", n), fmt.Sprint("web-", n)); err != nil {
				t.Errorf("machine %d: %v", n, err)
			}
		})
	}
	all.Wait()
	subject := topology.EnrolSubject(topology.ServerAddress{Cell: token.Cell, Server: token.Pool})
	polltest.Eventually(t, "a sender whose requests admit no server is dropped", func() bool {
		for range 2 * admission.IdleASecond {
			_ = s.ops.Publish(subject, nil)
		}
		return !s.r.admission.Idle.Open(bus.SenderOf(t.Context(), subject))
	})
}

func TestTwoRegistriesAdmitNoMoreServersThanATokenHasUses(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.registry()
	token := s.pooled(&registryv1.CreateTokenRequest{Name: "race", Uses: 7})
	var wait sync.WaitGroup
	results := make([]string, 24)
	for n := range results {
		wait.Go(func() {
			_, err := s.joinWith(token, fmt.Sprint("key ", n), "same")
			for err != nil && fault.RefusalOf(err) == nil { // one request too many in a second is dropped
				_, err = s.joinWith(token, fmt.Sprint("key ", n), "same")
			}
			results[n] = codeOf(err)
		})
	}
	wait.Wait()
	admitted := 0
	for _, code := range results {
		switch code {
		case "none":
			admitted++
		case "TOKEN_USED_UP":
		default:
			t.Errorf("refused with %q", code)
		}
	}
	used := 0
	for _, f := range s.facts(ledger.Token, "race") {
		if b, ok := f.Body.(*tokenv1.Used); ok {
			used += len(b.Uses)
		}
	}
	if admitted != 7 || used != 7 {
		t.Errorf("%d servers were admitted, %d uses recorded; want 7", admitted, used)
	}
	polltest.Eventually(t, "both registries list seven names", func() bool { // one of them may be behind
		names := map[string]bool{}
		all := must[*registryv1.ListServersResponse](s, "ListServers", &registryv1.ListServersRequest{})
		for _, is := range all.Servers {
			names[is.Name] = true
		}
		return len(names) == 7
	})
}

func TestATokenIsRefusedAfterItsTimeAndAfterItsRevocation(t *testing.T) {
	t.Parallel()
	s := start(t)
	token := s.pooled(&registryv1.CreateTokenRequest{Name: "one", Uses: 5, ValidFor: durationpb.New(time.Hour)})
	first, err := s.joinWith(token, "key 1", "a")
	if err != nil {
		t.Fatal(err)
	}
	wrong := token
	wrong.Secret = "another"
	if _, err := s.joinWith(wrong, "key 2", "b"); codeOf(err) != "UNKNOWN_TOKEN" {
		t.Errorf("with another secret: %v", err)
	}
	s.skew.Store(int64(time.Hour))
	if _, err := s.joinWith(token, "key 2", "b"); codeOf(err) != "EXPIRED_TOKEN" {
		t.Errorf("after its time: %v", err)
	}
	s.skew.Store(0)
	must[*registryv1.RevokeTokenResponse](s, "RevokeToken",
		&registryv1.RevokeTokenRequest{Name: "one", Reason: "stolen"})
	must[*registryv1.RevokeTokenResponse](s, "RevokeToken", &registryv1.RevokeTokenRequest{Name: "one"})
	for _, key := range []string{"key 1", "key 2"} {
		if _, err := s.joinWith(token, key, "b"); codeOf(err) != "TOKEN_REVOKED" {
			t.Errorf("%s after the revocation: %v", key, err)
		}
	}
	is := must[*registryv1.GetServerResponse](s, "GetServer",
		&registryv1.GetServerRequest{Server: first.ServerId}).Server
	if is.Standing != serverv1.Standing_STANDING_ENROLLED {
		t.Errorf("the server that joined before is %v", is.Standing)
	}
	if have := names(s.facts(ledger.Token, "one")); !slices.Equal(have, []string{"created", "used", "revoked"}) {
		t.Errorf("facts %v", have)
	}
}
