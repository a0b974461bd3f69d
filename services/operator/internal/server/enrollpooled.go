package server

import (
	"context"
	"maps"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// enrollPooled makes one token for all servers that a file lists. A token does not know which machine uses it, so the
// lines may differ in their names only.
func enrollPooled(ctx context.Context, env *cli.Env, m many, file string) error {
	if m.out != "" {
		return cli.Usage("--out is for a token each. Try: --pooled %s --token-file FILE", m.pooled)
	}
	target, err := reserveNew(file)
	if err != nil {
		return err
	}
	defer target.Discard()
	all, err := m.read(env)
	if err != nil {
		return err
	}
	q, err := pooledFor(all)
	if err != nil {
		return err
	}
	q.Name = m.pooled
	r, err := cli.Call[*registryv1.CreateTokenResponse](ctx, env, q)
	if err != nil {
		return err
	}
	env.Say("%s may join until %s, under their host names; on each machine, as root: executor join --token-file FILE",
		output.Plural(int(r.GetToken().GetUses()), "server"), output.Stamp(r.GetToken().GetExpiresAt()))
	if target != nil {
		return target.Keep(r.GetSecret())
	}
	return output.ShowBare(env.Output, r, r.GetSecret())
}

// pooledFor returns the request for the token of several servers, and refuses servers that differ.
func pooledFor(all []*registryv1.InviteServerRequest) (*registryv1.CreateTokenRequest, error) {
	first := all[0]
	for _, s := range all {
		switch {
		case s.GetServerId() != "":
			return nil, cli.Usage("server %s has an id, which one token for all cannot bring to its machine. "+
				"Try: --out DIR, a token each", s.GetName())
		case s.GetEnvironment() != first.GetEnvironment() || s.GetCell() != first.GetCell() ||
			!maps.Equal(s.GetLabels(), first.GetLabels()):
			return nil, cli.Usage("servers %s and %s differ in environment, site or labels, which one token for all "+
				"cannot bring to their machines. Try: --out DIR, a token each; or a file and a token for each kind, "+
				"and garrison label-rule set for labels that follow from the machine", first.GetName(), s.GetName())
		}
	}
	return &registryv1.CreateTokenRequest{
		Uses: uint32(len(all)), ValidFor: first.GetValidFor(), Environment: first.GetEnvironment(),
		Cell: first.GetCell(), Labels: first.GetLabels(), Ownership: first.GetOwnership(),
		NameFrom: tokenv1.NameFrom_NAME_FROM_HOSTNAME,
	}, nil
}
