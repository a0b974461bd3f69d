// Package trust makes and keeps the keys and JWTs of one Garrison: the operator, the
// accounts SYS, CORE, NODES and OPS, and the users in them (NATS operator mode).
//
// Guarantees:
//
//  1. Private keys are files of mode 0600 in directories of mode 0700, written whole or not at all.
//  2. A server's own private key never leaves the server: it sends the public half and gets a JWT for it.
//  3. What a server, a guest or a person may do stands in the account's JWT, as the
//     template of a scoped signing key; a user's JWT carries only a name, a key and a tag.
//  4. The registry holds two signing keys, for servers and for guests, the key that signs
//     tombstones, and nothing else.
//  5. The service access holds the operator key and the keys that sign people (Issuer). It alone
//     changes an account while the bus runs, and only the keys that the account refuses.
//  6. Opening an authority that an older version made brings what users may do up to
//     date. No key changes, so all credentials stay valid.
//
// Sources: NATS documentation on decentralised JWT authentication, scoped signing keys.
package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Authority holds all keys and credentials that a Garrison trusts. It is created once and kept in a directory:
//
//	authority.json              the public part: operator and account JWTs
//	keys/NAME.seed              operator, accounts, system and signing keys
//	signer/{node,guest,tombstone}.json  the keys with which the registry admits servers and ends them
//	services/NAME.creds         a credentials file for each service
//	people/KEY.json             the public part of the first operator's credentials
type Authority struct {
	Public
	dir string
}

// Public is the trust configuration of a nats-server. It contains no secret.
type Public struct {
	format.Stamp
	// The numbers of the topology whose accounts and permissions are signed; 0 in an
	// authority from before there were numbers.
	Topology      uint32            `json:"topology,omitempty"`
	TopologyFloor uint32            `json:"topology_floor,omitempty"`
	OperatorJWT   string            `json:"operator_jwt"`
	SystemAccount string            `json:"system_account"` // public key of SYS
	Accounts      map[string]string `json:"accounts"`       // account JWT by public key
	Names         map[string]string `json:"names"`          // public key by account name
	TombstoneKey  string            `json:"tombstone_key"`  // public half of the key that signs tombstones
}

var authorityFormat = format.Spec{Kind: "authority", Now: 1, Floor: 1}

// OpenAuthority reads the authority in dir, and creates it if dir has none. Permissions change with the
// software, so OpenAuthority signs the JWTs of an older version again with the same keys. It does not change
// an authority whose operator key is kept elsewhere, or that a newer program signed. It refuses an authority
// that only a newer program may use, and then writes nothing.
func OpenAuthority(dir string) (*Authority, error) {
	a := &Authority{dir: dir, Public: Public{Accounts: map[string]string{}, Names: map[string]string{}}}
	kept, err := a.readPublic()
	if err != nil {
		return nil, err
	}
	if err := kept.signed().Check("the authority in " + dir); err != nil {
		return nil, err
	}
	if kept.signed().Newer() {
		a.Public = kept
		return a, nil
	}
	if _, err := os.Stat(a.path("keys", "operator.seed")); kept.OperatorJWT != "" && errors.Is(err, fs.ErrNotExist) {
		a.Public = kept
		return a, nil
	}
	for _, d := range []string{dir, a.path("keys"), a.path("signer"), a.path("services")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make authority: %w", err)
		}
	}
	if err := a.make(kept); err != nil {
		return nil, err
	}
	if reflect.DeepEqual(a.Public, kept) {
		return a, nil
	}
	data, err := json.MarshalIndent(a.Public, "", "  ")
	if err != nil {
		return nil, err
	}
	return a, writeFile(a.path("authority.json"), data)
}

// signed returns the numbers of the topology whose permissions are signed.
func (p Public) signed() topology.Numbers {
	return topology.Numbers{Number: p.Topology, Floor: p.TopologyFloor}
}

// readPublic reads authority.json; the result is empty if there is no authority yet.
func (a *Authority) readPublic() (p Public, err error) {
	data, err := os.ReadFile(a.path("authority.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("read authority: %w", err)
	}
	if err := authorityFormat.ReadJSON(a.path("authority.json"), data, &p); err != nil {
		return p, fmt.Errorf("read authority %s: %w", a.path("authority.json"), err)
	}
	return p, nil
}

// make creates every missing key and every missing, unreadable or outdated JWT. authority.json is written last: without
// it, the next call completes a half made directory.
func (a *Authority) make(kept Public) error {
	operator, operatorKey, err := a.key("operator", nkeys.CreateOperator)
	if err != nil {
		return err
	}
	keys := map[string]nkeys.KeyPair{}
	for _, name := range topology.Accounts {
		if keys[name], a.Names[name], err = a.key(name, nkeys.CreateAccount); err != nil {
			return err
		}
	}
	a.Stamp, a.Topology, a.TopologyFloor = authorityFormat.Stamp(), topology.Number, topology.Floor
	a.SystemAccount = a.Names[topology.AccountSystem]
	services, err := a.serviceKeys()
	if err != nil {
		return err
	}
	claims := jwt.NewOperatorClaims(operatorKey)
	claims.Name = "garrison"
	claims.SystemAccount = a.SystemAccount
	if a.OperatorJWT, err = renew(kept.OperatorJWT, claims, operator, jwt.DecodeOperatorClaims); err != nil {
		return fmt.Errorf("sign operator: %w", err)
	}
	for _, name := range topology.Accounts {
		account, err := a.account(name)
		if err != nil {
			return err
		}
		public := a.Names[name]
		keepRevocations(account, kept.Accounts[public])
		services.revokeMoved(account)
		a.Accounts[public], err = renew(kept.Accounts[public], account, operator, jwt.DecodeAccountClaims)
		if err != nil {
			return fmt.Errorf("sign account %s: %w", name, err)
		}
	}
	if err := a.makeTombstoneKey(); err != nil {
		return err
	}
	if err := a.nothingLost(kept); err != nil {
		return err
	}
	return a.makeServices(services, keys)
}

// ServiceCredentials returns the file with a service's credentials.
func (a *Authority) ServiceCredentials(user string) string { return ServiceCredentials(a.dir, user) }

// ServiceCredentials returns the file with the credentials of a user of topology.Users, of the authority in dir.
func ServiceCredentials(dir, user string) string {
	return filepath.Join(dir, "services", user+".creds")
}

// SignerDir returns the directory of the registry's signer.
func (a *Authority) SignerDir() string { return a.path("signer") }

func (a *Authority) path(parts ...string) string {
	return filepath.Join(append([]string{a.dir}, parts...)...)
}

// key returns the key pair stored under a name, and creates it if it is missing.
func (a *Authority) key(name string, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string, error) {
	path := a.path("keys", name+".seed")
	seed, err := os.ReadFile(path)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		if seed, err = newSeed(create); err == nil {
			err = writeFile(path, seed)
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("key %s: %w", name, err)
	}
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, "", fmt.Errorf("key %s: %w", name, err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, "", fmt.Errorf("key %s: %w", name, err)
	}
	return pair, public, nil
}

func newSeed(create func() (nkeys.KeyPair, error)) ([]byte, error) {
	pair, err := create()
	if err != nil {
		return nil, err
	}
	return pair.Seed()
}
