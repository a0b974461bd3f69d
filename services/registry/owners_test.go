package registry

import (
	"testing"

	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

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

func TestAnOwnerReplacesOnlyWhatItDeclaredItself(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.registry()
	change := func(owner string, fields map[string]uint64) []*ownerv1.FieldOwner {
		return must[*registryv1.ChangeServerResponse](s, "ChangeServer", &registryv1.ChangeServerRequest{
			Server: "one", Owner: &ownerv1.FieldOwner{Name: owner, Fields: fields},
		}).Server.Owners
	}
	must[*registryv1.InviteServerResponse](s, "InviteServer", &registryv1.InviteServerRequest{
		Name: "one", Owner: &ownerv1.FieldOwner{Name: "site", Fields: map[string]uint64{".": 1}},
	})
	change("team", map[string]uint64{"labels.a": 2})
	if got := change("site", map[string]uint64{"labels.b": 3}); len(got) != 2 || got[0].Fields["labels.b"] != 3 ||
		got[1].Fields["labels.a"] != 2 {
		t.Errorf("%v", got)
	}
	if got := change("site", nil); len(got) != 1 || got[0].Name != "team" {
		t.Errorf("%v", got)
	}
	// A request without an owner keeps them.
	r := must[*registryv1.ChangeServerResponse](s, "ChangeServer", &registryv1.ChangeServerRequest{
		Server: "one", SetLabels: map[string]string{"x": "y"},
	})
	if len(r.Server.Owners) != 1 {
		t.Errorf("%v", r.Server.Owners)
	}
}
