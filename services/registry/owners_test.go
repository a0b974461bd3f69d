package registry

import (
	"testing"

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
