package registry

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/trust"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
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
