package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// PersonValidFor is how long the credentials of a person are valid when nothing else is asked for.
const PersonValidFor = 90 * 24 * time.Hour

// Person is credentials of a person, or of a program that acts for one, without the private key.
type Person struct {
	Name      string        `json:"name"`
	Role      topology.Role `json:"role"`
	PublicKey string        `json:"public_key"`
	Expires   time.Time     `json:"expires,omitzero"` // zero means never
}

// reserved are names that stand for a part of Garrison in the ledger.
var reserved = []string{"access", "access-system", "bus", "clock", "executor", "garrison", "garrisond", "guest", "node"}

// CheckPerson refuses a name that a person cannot have: the ledger records it as the actor, and it is a
// token of subjects. The names of services are refused. The error is Invalid.
func CheckPerson(name string) error {
	if err := ident.CheckName("user", name); err != nil {
		return err
	}
	if slices.Contains(reserved, name) || slices.Contains(topology.Users, name) {
		return fault.New(fault.Invalid, "the name %q is reserved for a part of Garrison", name)
	}
	return nil
}

// Sign returns the JWT of a person. The error is Invalid for a name, role or key that cannot be.
func (i *Issuer) Sign(p Person) (string, error) {
	if err := CheckPerson(p.Name); err != nil {
		return "", err
	}
	if err := CheckPublicKey(p.PublicKey); err != nil {
		return "", err
	}
	return i.authority.signPerson(p)
}

// CheckPublicKey refuses what is not the public half of a user's key.
func CheckPublicKey(public string) error {
	if !nkeys.IsValidPublicUserKey(public) {
		return fault.New(fault.Invalid, "public key %.60q is not a user's key", public)
	}
	return nil
}

// People returns the credentials that were created with Authority.Person: those of the first operator.
func (i *Issuer) People() ([]Person, error) {
	files, err := os.ReadDir(i.authority.path("people"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read people: %w", err)
	}
	var out []Person
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		var p Person
		data, err := os.ReadFile(i.authority.path("people", f.Name()))
		if err == nil {
			err = json.Unmarshal(data, &p)
		}
		if err != nil {
			return nil, fmt.Errorf("read people: %s: %w", f.Name(), err)
		}
		out = append(out, p)
	}
	return out, nil
}

// Person creates credentials for a person, or for a program that acts for a person, valid until
// expires; the zero time means no expiry. The service access records them when it starts.
func (a *Authority) Person(name string, role topology.Role, url string, expires time.Time) (Context, error) {
	if err := CheckPerson(name); err != nil {
		return Context{}, err
	}
	public, seed, err := NewUserKey()
	if err != nil {
		return Context{}, err
	}
	p := Person{Name: name, Role: role, PublicKey: public, Expires: expires.UTC().Truncate(time.Second)}
	token, err := a.signPerson(p)
	if err != nil {
		return Context{}, err
	}
	if err := os.MkdirAll(a.path("people"), 0o700); err != nil {
		return Context{}, fmt.Errorf("keep person %s: %w", name, err)
	}
	if err := writeJSON(a.path("people", public+".json"), p); err != nil {
		return Context{}, err
	}
	return Context{URL: url, Actor: name, Role: string(role), JWT: token, Seed: string(seed)}, nil
}

// signPerson signs with the key of the person's role.
func (a *Authority) signPerson(p Person) (string, error) {
	if !slices.Contains(topology.Roles, p.Role) {
		return "", fault.New(fault.Invalid, "%q is not a role", p.Role)
	}
	account := topology.AccountOfRole(p.Role)
	seed, err := os.ReadFile(a.path("keys", account+"-"+string(p.Role)+".seed"))
	if err != nil {
		return "", fmt.Errorf("read the signing key of role %s: %w", p.Role, err)
	}
	key := signingKey{Account: a.Names[account], Seed: string(seed)}
	return key.user(p.Name, p.PublicKey, []string{roleTag + string(p.Role)}, p.Expires)
}

// roleTag begins the tag of a user's JWT that names the role. It says what may be offered; what the user may do
// follows from the key that signed.
const roleTag = "role:"

// RoleOf returns the role that a user's JWT names; empty when it names none.
func RoleOf(userJWT string) topology.Role {
	claims, err := jwt.DecodeUserClaims(userJWT)
	if err != nil {
		return ""
	}
	for _, tag := range claims.Tags {
		if role, ok := strings.CutPrefix(tag, roleTag); ok {
			return topology.Role(role)
		}
	}
	return ""
}

// PublicKey returns the public half of the context's key, or "" when it cannot be read.
func (c Context) PublicKey() string {
	pair, err := nkeys.FromSeed([]byte(c.Seed))
	if err != nil {
		return ""
	}
	defer pair.Wipe()
	public, _ := pair.PublicKey()
	return public
}

// IssuerOf returns the public key that signed a user's JWT; empty when it cannot be read.
func IssuerOf(userJWT string) string {
	claims, err := jwt.DecodeUserClaims(userJWT)
	if err != nil {
		return ""
	}
	return claims.Issuer
}

// PeopleIssuers returns the public keys that sign people who may use the services, one for each role.
func (p Public) PeopleIssuers() []string {
	claims, err := jwt.DecodeAccountClaims(p.Accounts[p.Names[topology.AccountOps]])
	if err != nil {
		return nil
	}
	return claims.SigningKeys.Keys()
}

// UserOf returns the public key and the name of the user whom a JWT admits; both are empty when it
// cannot be read.
func UserOf(userJWT string) (publicKey, name string) {
	claims, err := jwt.DecodeUserClaims(userJWT)
	if err != nil {
		return "", ""
	}
	return claims.Subject, claims.Name
}
