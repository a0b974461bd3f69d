package trust

import (
	"fmt"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// serviceUser is a user of topology.Users: its key and its present JWT.
type serviceUser struct {
	name, public string
	seed         []byte
	kept         string // the stored JWT, or ""
	account      string // the account that signed it, or ""
}

type serviceUsers []serviceUser

// serviceKeys reads the stored credentials of every user of topology.Users, and creates a key for those without.
func (a *Authority) serviceKeys() (serviceUsers, error) {
	var out serviceUsers
	for _, name := range topology.Users {
		u := serviceUser{name: name}
		var err error
		if u.kept, u.seed, err = ReadCredentials(a.ServiceCredentials(name))(); err != nil {
			u.kept = "" // there are none, or they cannot be read
			if _, u.seed, err = NewUserKey(); err != nil {
				return nil, err
			}
		}
		if u.public, err = publicOf(u.seed); err != nil {
			return nil, fmt.Errorf("read the key of user %s: %w", name, err)
		}
		if claims, err := jwt.DecodeUserClaims(u.kept); err == nil {
			u.account = claims.Issuer
		}
		out = append(out, u)
	}
	return out, nil
}

// revokeMoved revokes in an account the users that now belong to another: their JWTs do not expire.
func (us serviceUsers) revokeMoved(account *jwt.AccountClaims) {
	for _, u := range us {
		if u.account == account.Subject && topology.AccountOf(u.name) != account.Name {
			account.Revoke(u.public)
		}
	}
}

// makeServices writes the credentials of every user of topology.Users, signed by its account.
func (a *Authority) makeServices(users serviceUsers, accounts map[string]nkeys.KeyPair) error {
	for _, u := range users {
		token, err := u.sign(accounts[topology.AccountOf(u.name)])
		if err != nil {
			return fmt.Errorf("sign user %s: %w", u.name, err)
		}
		if token == u.kept {
			continue
		}
		if err := WriteCredentials(a.ServiceCredentials(u.name), token, u.seed); err != nil {
			return err
		}
	}
	return nil
}

// sign returns the user's JWT. It reuses the stored JWT if that is up to date.
func (u serviceUser) sign(account nkeys.KeyPair) (string, error) {
	p := topology.ServicePermissions(u.name)
	c := jwt.NewUserClaims(u.public)
	c.Name = u.name
	c.Permissions = permissions(p)
	c.NatsLimits.Payload = p.Payload
	return renew(u.kept, c, account, jwt.DecodeUserClaims)
}

func publicOf(seed []byte) (string, error) {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	return pair.PublicKey()
}
