package admission

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/trust"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// grant is what a server gets that joined over a login that it shares with others.
type grant struct {
	server, cell, publicKey string
	ownership               serverv1.Ownership
	expires                 time.Time // of its credentials; zero means never
}

// grantOf returns what a recorded server gets.
func grantOf(s *serverv1.Server) *grant {
	g := &grant{server: s.Id, cell: s.Cell, publicKey: s.PublicKey, ownership: s.Ownership}
	if s.CredentialsExpireAt != nil {
		g.expires = s.CredentialsExpireAt.AsTime()
	}
	return g
}

// sealed signs the credentials of a server and seals them to a key of its own, so that no other holder of
// its login can read them.
func (a *Desk) sealed(g *grant, to string) (sealed []byte, by string, err error) {
	ca, err := a.busCA()
	if err != nil {
		return nil, "", err
	}
	resp := &registryv1.EnrolResponse{
		ServerId: g.server, Cell: g.cell, Ownership: g.ownership, TombstoneKey: a.Signer.TombstoneKey(),
		ImageKeys: a.imageKeys, BusCa: string(ca),
	}
	if resp.UserJwt, err = a.Signer.Server(g.publicKey, g.server, g.cell, g.expires); err != nil {
		return nil, "", err
	}
	data, err := proto.Marshal(resp)
	if err != nil {
		return nil, "", err
	}
	return trust.SealTo(to, data)
}
