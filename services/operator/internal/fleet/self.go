package fleet

import (
	"context"
	"slices"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// RoleNow returns the role that the service access recorded for the key of a context, whatever the context itself
// says. It refuses a key that access does not know, or no longer. A reporter or an approver may not read the users: its
// role is what the context says, once the bus accepted the credentials and refused that request.
func RoleNow(ctx context.Context, env *cli.Env, who trust.Context) (topology.Role, error) {
	if _, err := env.Client(ctx); err != nil {
		return "", err
	}
	r, err := cli.Collect(ctx, cli.PageFlags{},
		func(ctx context.Context, p *apiv1.Page) (*accessv1.ListUsersResponse, error) {
			return cli.Call[*accessv1.ListUsersResponse](ctx, env, &accessv1.ListUsersRequest{Page: p})
		})
	role := topology.Role(who.Role)
	if fault.Is(err, fault.Denied) && (role == topology.Reporter || role == topology.Approver) {
		return role, nil
	}
	if err != nil {
		return "", err
	}
	public := who.PublicKey()
	for _, u := range r.GetUsers() {
		n := slices.IndexFunc(u.GetKeys(), func(k *userv1.Key) bool { return k.GetPublicKey() == public })
		if n < 0 || u.GetName() != who.Actor {
			continue
		}
		if expires := u.GetKeys()[n].GetExpiresAt(); expires != nil && !env.Now().Before(expires.AsTime()) {
			return "", stranger(who, "expired at "+output.Stamp(expires))
		}
		return topology.Role(output.Word(u.GetKeys()[n].GetRole())), nil
	}
	return "", stranger(who, "is not one of that user, or it is revoked")
}

// stranger refuses a context whose key is not valid.
func stranger(who trust.Context, why string) error {
	return cli.Refuse(fault.Denied, &apiv1.Refusal{
		Code:    code.BadKey,
		Message: "the context names the user " + output.Quote(who.Actor) + ", and its key " + why,
		Try:     "garrison context list, or new credentials of an admin: garrison user create",
	})
}
