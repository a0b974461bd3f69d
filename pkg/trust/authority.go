package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Authority is everything that a Garrison trusts. It is made once, and kept in a directory:
//
//	authority.json              the public part: operator and account JWTs
//	keys/NAME.seed              operator, accounts, system and signing keys
//	signer/{node,guest,tombstone}.json  what the registry needs to admit servers, and to end them
//	services/NAME.creds         a credentials file for each service
type Authority struct {
	Public
	dir string
}

// Public is what a nats-server is configured with. None of it is secret.
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

// accountNames is the order in which accounts are made: CORE exports to the others.
var accountNames = []string{topology.AccountSystem, topology.AccountCore, topology.AccountNodes, topology.AccountOps}

var authorityFormat = format.Spec{Kind: "authority", Now: 1, Floor: 1}

// OpenAuthority reads the authority kept in dir, and makes one there first if there is
// none. What users may do changes with the software, so what an older version signed is
// signed again with the same keys. An authority whose operator key was taken away, to be
// kept elsewhere, or that a newer program signed, is left as it is. One that only a newer
// program may use is refused, and nothing is written.
func OpenAuthority(dir string) (*Authority, error) {
	a := &Authority{dir: dir, Public: Public{Accounts: map[string]string{}, Names: map[string]string{}}}
	kept, err := a.readPublic()
	if err != nil {
		return nil, err
	}
	signed := topology.Numbers{Number: kept.Topology, Floor: kept.TopologyFloor}
	if err := signed.Check("the authority in " + dir); err != nil {
		return nil, err
	}
	if signed.Newer() {
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

// readPublic reads authority.json, which is empty before there is an authority.
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

// make makes every key that is missing and every JWT that is not kept as it should be.
// authority.json is written behind it: without it, a half made directory is completed.
func (a *Authority) make(kept Public) error {
	operator, operatorKey, err := a.key("operator", nkeys.CreateOperator)
	if err != nil {
		return err
	}
	keys := map[string]nkeys.KeyPair{}
	for _, name := range accountNames {
		if keys[name], a.Names[name], err = a.key(name, nkeys.CreateAccount); err != nil {
			return err
		}
	}
	a.Stamp, a.Topology, a.TopologyFloor = authorityFormat.Stamp(), topology.Number, topology.Floor
	a.SystemAccount = a.Names[topology.AccountSystem]
	claims := jwt.NewOperatorClaims(operatorKey)
	claims.Name = "garrison"
	claims.SystemAccount = a.SystemAccount
	if a.OperatorJWT, err = renew(kept.OperatorJWT, claims, operator, jwt.DecodeOperatorClaims); err != nil {
		return fmt.Errorf("sign operator: %w", err)
	}
	for _, name := range accountNames {
		account, err := a.account(name)
		if err != nil {
			return err
		}
		public := a.Names[name]
		if a.Accounts[public], err = renew(kept.Accounts[public], account, operator, jwt.DecodeAccountClaims); err != nil {
			return fmt.Errorf("sign account %s: %w", name, err)
		}
	}
	if err := a.makeTombstoneKey(); err != nil {
		return err
	}
	if err := a.nothingLost(kept); err != nil {
		return err
	}
	return a.makeServices(keys)
}

// account gives the claims of one account: its limits, exports, imports and signing keys.
func (a *Authority) account(name string) (*jwt.AccountClaims, error) {
	c := jwt.NewAccountClaims(a.Names[name])
	c.Name = name
	if name == topology.AccountCore {
		c.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	}
	for _, e := range topology.Exports {
		switch name {
		case topology.AccountCore:
			c.Exports.Add(export(e))
		case e.To:
			c.Imports.Add(imported(e, a.Names[topology.AccountCore]))
		}
	}
	switch name {
	case topology.AccountNodes:
		return c, errors.Join(
			a.addScope(c, "node", topology.NodePermissions),
			a.addScope(c, "guest", topology.GuestPermissions))
	case topology.AccountOps:
		var err error
		for _, r := range topology.Roles {
			err = errors.Join(err, a.addScope(c, string(r), topology.RolePermissions(r)))
		}
		return c, err
	}
	return c, nil
}

func export(e topology.Export) *jwt.Export {
	out := &jwt.Export{Name: e.To + " " + e.Subject, Subject: jwt.Subject(e.Subject), Type: jwt.Service}
	switch {
	case e.Stream:
		out.Type = jwt.Stream
	case e.Many:
		out.ResponseType = jwt.ResponseTypeStream
	default:
		out.ResponseType = jwt.ResponseTypeSingleton
	}
	return out
}

func imported(e topology.Export, core string) *jwt.Import {
	out := &jwt.Import{Name: e.Subject, Account: core, Subject: jwt.Subject(e.Subject), Type: jwt.Service}
	if e.Stream {
		out.Type = jwt.Stream
	}
	if e.Local != "" {
		out.LocalSubject = jwt.RenamingSubject(e.Local)
	}
	return out
}

// addScope adds a signing key whose users may do what the template says, and keeps its seed.
func (a *Authority) addScope(c *jwt.AccountClaims, role string, p topology.Permissions) error {
	pair, public, err := a.key(c.Name+"-"+role, nkeys.CreateAccount)
	if err != nil {
		return err
	}
	scope := jwt.NewUserScope()
	scope.Key, scope.Role = public, role
	scope.Template = jwt.UserPermissionLimits{
		Permissions: jwt.Permissions{Pub: jwt.Permission{Allow: p.Publish}, Sub: jwt.Permission{Allow: p.Subscribe}},
		Limits:      jwt.Limits{NatsLimits: jwt.NatsLimits{Subs: 64, Data: jwt.NoLimit, Payload: 1 << 20}},
	}
	c.SigningKeys.AddScopedSigner(scope)
	if c.Name != topology.AccountNodes {
		return nil
	}
	seed, err := pair.Seed()
	if err != nil {
		return err
	}
	return a.keepForSigner(role, signingKey{Account: c.Subject, Seed: string(seed)})
}

// ServiceCredentials gives the file with a service's credentials.
func (a *Authority) ServiceCredentials(user string) string { return a.path("services", user+".creds") }

// SignerDir gives the directory that the registry's signer is opened from.
func (a *Authority) SignerDir() string { return a.path("signer") }

// Person makes credentials for a person, or a program that acts for one, valid until
// expires; the zero time means for ever. The name is what the ledger will say.
func (a *Authority) Person(name string, role topology.Role, url string, expires time.Time) (Context, error) {
	if err := ident.CheckName("actor", name); err != nil {
		return Context{}, err // a wildcard in a subject would be everybody
	}
	seed, err := os.ReadFile(a.path("keys", topology.AccountOps+"-"+string(role)+".seed"))
	if err != nil {
		return Context{}, fmt.Errorf("read the signing key of role %s: %w", role, err)
	}
	public, userSeed, err := NewUserKey()
	if err != nil {
		return Context{}, err
	}
	key := signingKey{Account: a.Names[topology.AccountOps], Seed: string(seed)}
	token, err := key.user(name, public, nil, expires)
	if err != nil {
		return Context{}, err
	}
	return Context{URL: url, Actor: name, Role: string(role), JWT: token, Seed: string(userSeed)}, nil
}

func (a *Authority) path(parts ...string) string {
	return filepath.Join(append([]string{a.dir}, parts...)...)
}

// key gives the key pair that is kept under a name, and makes it first if there is none.
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
