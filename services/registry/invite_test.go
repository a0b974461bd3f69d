package registry

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/trust"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
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
