package trust

import (
	"fmt"
	"slices"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// makeServices makes a user in CORE for each service, and one in SYS that may ask the
// bus about itself, each signed by its account.
func (a *Authority) makeServices(accounts map[string]nkeys.KeyPair) error {
	for _, name := range append(slices.Clone(topology.Services), topology.UserProvision, topology.UserSystem) {
		account := accounts[topology.AccountCore]
		if name == topology.UserSystem {
			account = accounts[topology.AccountSystem]
		}
		path := a.path("services", name+".creds")
		kept, seed, err := ReadCredentials(path)()
		if err != nil { // there are none, or they cannot be read
			if _, seed, err = NewUserKey(); err != nil {
				return err
			}
		}
		token, err := serviceToken(kept, name, seed, account)
		if err != nil {
			return fmt.Errorf("sign user %s: %w", name, err)
		}
		if token == kept {
			continue
		}
		if err := WriteCredentials(path, token, seed); err != nil {
			return err
		}
	}
	return nil
}

// serviceToken gives the JWT of a service's user, the one that is kept if it is as it should be.
func serviceToken(kept, name string, seed []byte, account nkeys.KeyPair) (string, error) {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err != nil {
		return "", err
	}
	p := topology.ServicePermissions(name)
	u := jwt.NewUserClaims(public)
	u.Name = name
	u.Permissions = jwt.Permissions{Pub: jwt.Permission{Allow: p.Publish}, Sub: jwt.Permission{Allow: p.Subscribe}}
	return renew(kept, u, account, jwt.DecodeUserClaims)
}
