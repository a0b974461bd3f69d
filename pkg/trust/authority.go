package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Authority is everything that a Garrison trusts. It is made once, and kept in a directory:
//
//	authority.json              the public part: operator and account JWTs
//	keys/NAME.seed              operator, accounts, system and signing keys
//	signer/{node,guest}.json    what the registry needs to admit servers
//	services/NAME.creds         a credentials file for each service
type Authority struct {
	Public
	dir string
}

// Public is what a nats-server is configured with. None of it is secret.
type Public struct {
	OperatorJWT   string            `json:"operator_jwt"`
	SystemAccount string            `json:"system_account"` // public key of SYS
	Accounts      map[string]string `json:"accounts"`       // account JWT by public key
	Names         map[string]string `json:"names"`          // public key by account name
}

// accountNames is the order in which accounts are made: CORE exports to the others.
var accountNames = []string{topology.AccountSystem, topology.AccountCore, topology.AccountNodes, topology.AccountOps}

// OpenAuthority reads the authority kept in dir, and makes one there first if there is none.
func OpenAuthority(dir string) (*Authority, error) {
	a := &Authority{dir: dir}
	data, err := os.ReadFile(a.path("authority.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return create(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	if err := json.Unmarshal(data, &a.Public); err != nil {
		return nil, fmt.Errorf("read authority %s: %w", a.path("authority.json"), err)
	}
	return a, nil
}

// create makes every key and JWT. authority.json is written last: without it, a half
// made directory is made again.
func create(dir string) (*Authority, error) {
	for _, d := range []string{dir, filepath.Join(dir, "keys"), filepath.Join(dir, "signer"), filepath.Join(dir, "services")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make authority: %w", err)
		}
	}
	a := &Authority{dir: dir, Public: Public{Accounts: map[string]string{}, Names: map[string]string{}}}
	operator, operatorKey, err := a.newKey("operator", nkeys.CreateOperator)
	if err != nil {
		return nil, err
	}
	keys := map[string]nkeys.KeyPair{}
	for _, name := range accountNames {
		if keys[name], a.Names[name], err = a.newKey(name, nkeys.CreateAccount); err != nil {
			return nil, err
		}
	}
	a.SystemAccount = a.Names[topology.AccountSystem]
	claims := jwt.NewOperatorClaims(operatorKey)
	claims.Name = "garrison"
	claims.SystemAccount = a.SystemAccount
	if a.OperatorJWT, err = claims.Encode(operator); err != nil {
		return nil, fmt.Errorf("sign operator: %w", err)
	}
	for _, name := range accountNames {
		account, err := a.account(name)
		if err != nil {
			return nil, err
		}
		if a.Accounts[a.Names[name]], err = account.Encode(operator); err != nil {
			return nil, fmt.Errorf("sign account %s: %w", name, err)
		}
	}
	if err := a.createServices(keys); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(a.Public, "", "  ")
	if err != nil {
		return nil, err
	}
	return a, writeFile(a.path("authority.json"), data)
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
	pair, public, err := a.newKey(c.Name+"-"+role, nkeys.CreateAccount)
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
	return writeJSON(a.path("signer", role+".json"), signingKey{Account: c.Subject, Seed: string(seed)})
}

// createServices makes a user in CORE for each service, and one in SYS that may ask
// the bus about itself, each signed by its account.
func (a *Authority) createServices(accounts map[string]nkeys.KeyPair) error {
	for _, name := range append(topology.Services, topology.UserProvision, topology.UserSystem) {
		p, account := topology.ServicePermissions(name), accounts[topology.AccountCore]
		if name == topology.UserSystem {
			account = accounts[topology.AccountSystem]
		}
		public, seed, err := NewUserKey()
		if err != nil {
			return err
		}
		u := jwt.NewUserClaims(public)
		u.Name = name
		u.Permissions = jwt.Permissions{Pub: jwt.Permission{Allow: p.Publish}, Sub: jwt.Permission{Allow: p.Subscribe}}
		token, err := u.Encode(account)
		if err != nil {
			return fmt.Errorf("sign user %s: %w", name, err)
		}
		if err := WriteCredentials(a.path("services", name+".creds"), token, seed); err != nil {
			return err
		}
	}
	return nil
}

// ServiceCredentials gives the file with a service's credentials.
func (a *Authority) ServiceCredentials(user string) string { return a.path("services", user+".creds") }

// SignerDir gives the directory that the registry's signer is opened from.
func (a *Authority) SignerDir() string { return a.path("signer") }

// Person makes credentials for a person, or a program that acts for one, valid until
// expires; the zero time means for ever. The name is what the ledger will say.
func (a *Authority) Person(name string, role topology.Role, url string, expires time.Time) (Context, error) {
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

// newKey makes a key pair and keeps its seed.
func (a *Authority) newKey(name string, make func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string, error) {
	pair, err := make()
	if err != nil {
		return nil, "", fmt.Errorf("make key %s: %w", name, err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, "", fmt.Errorf("make key %s: %w", name, err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, "", fmt.Errorf("make key %s: %w", name, err)
	}
	return pair, public, writeFile(a.path("keys", name+".seed"), seed)
}
