package registry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/server"
)

const (
	usualInvitation = time.Hour
	longInvitation  = 30 * 24 * time.Hour
	secretBytes     = 32
)

// inviteServer makes a one-time token. Only its hash is recorded, so it cannot be shown again.
func (r *Registry) inviteServer(ctx context.Context, c bus.Caller, q *registryv1.InviteServerRequest) (*registryv1.InviteServerResponse, error) {
	invited, err := r.invitation(q)
	if err != nil {
		return nil, err
	}
	id, expires := r.NewID(), invited.ExpiresAt.AsTime()
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails: crypto/rand ends the process instead
	token := trust.Token{URL: r.JoinURL, ServerID: id, Cell: invited.Cell, Secret: base64.RawURLEncoding.EncodeToString(secret)}
	jwt, seed, err := r.Signer.Guest(id, invited.Cell, expires)
	if err != nil {
		return nil, fmt.Errorf("sign the invitation: %w", err)
	}
	token.JWT, token.Seed = jwt, string(seed)
	hash := sha256.Sum256([]byte(token.Secret))
	invited.TokenSha256 = hash[:]
	if err := r.invite(ctx, c, id, invited); err != nil {
		return nil, err
	}
	r.Log.Info().Str(logs.Server, id).Str("name", invited.Name).Str(logs.Actor, c.Actor).Msg("server invited")
	return &registryv1.InviteServerResponse{ServerId: id, Token: token.String(), ExpiresAt: invited.ExpiresAt}, nil
}

// everyServer is what operators write for every server, so that none can have it as a name.
const everyServer = "all"

// invitation checks a request and fills in what it leaves open.
func (r *Registry) invitation(q *registryv1.InviteServerRequest) (*serverv1.Invited, error) {
	if r.Signer == nil {
		return nil, fault.New(fault.Unavailable, "this registry has no signing keys, so it cannot invite servers")
	}
	i := &serverv1.Invited{Name: q.Name, Cell: q.Cell, Labels: q.Labels, Environment: q.Environment, Ownership: q.Ownership}
	if i.Cell == "" {
		i.Cell = topology.DefaultCell
	}
	if i.Ownership == serverv1.Ownership_OWNERSHIP_UNSPECIFIED {
		i.Ownership = serverv1.Ownership_OWNERSHIP_MANUAL
	}
	if err := ident.CheckHostname("server", i.Name); err != nil {
		return nil, badName(err)
	}
	if ident.IsUUID(i.Name) {
		return nil, invalid("BAD_NAME", fmt.Sprintf("server name %q looks like an id", i.Name))
	}
	if i.Name == everyServer {
		return nil, invalid("BAD_NAME", fmt.Sprintf("a server cannot be named %q: selectors mean every server by it", i.Name))
	}
	if err := ident.CheckName("cell", i.Cell); err != nil {
		return nil, badName(err)
	}
	if err := checkLabels(i.Labels); err != nil {
		return nil, err
	}
	valid := usualInvitation
	if q.ValidFor != nil {
		valid = q.ValidFor.AsDuration()
	}
	if valid <= 0 || valid > longInvitation {
		return nil, invalid("BAD_DURATION", fmt.Sprintf("a token valid for %v; want more than 0 and at most %v", valid, longInvitation))
	}
	i.ExpiresAt = timestamppb.New(r.Now().Add(valid).UTC())
	return i, nil
}

// invite records an invitation. Names are unique among servers that are not dead; when
// two registries invite under one name at once, the view takes the first in the
// ledger, and the second is taken back here.
func (r *Registry) invite(ctx context.Context, c bus.Caller, id string, invited *serverv1.Invited) error {
	taken := exists("server", invited.Name, "garrison server show "+invited.Name)
	unused := exists("invitation of server", invited.Name, "garrison server forget "+invited.Name+", which makes its token worthless, and invite it again")
	recorded := false
	err := r.write(ctx, func() ([]ledger.Draft, error) {
		for s := range r.view.ServersNamed(invited.Name) {
			if s.Life == serverv1.Life_LIFE_INVITED {
				return nil, unused
			}
			if server.Living(s) {
				return nil, taken
			}
		}
		recorded = true
		return []ledger.Draft{r.guarded(r.asked(c, ledger.Server, id, invited))}, r.checkEnvironment(invited.Environment)
	})
	if err != nil || !recorded {
		return err
	}
	r.follower.Read(func() { _, recorded = r.view.Server(id) })
	if recorded {
		return nil
	}
	err = r.write(ctx, func() ([]ledger.Draft, error) {
		return []ledger.Draft{ledger.Free(r.asked(c, ledger.Server, id, &serverv1.Forgotten{}))}, nil
	})
	if err != nil {
		return err
	}
	return taken
}
