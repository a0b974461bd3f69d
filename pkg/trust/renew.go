package trust

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// renew signs claims, unless the existing JWT has the same claims. It does not compare the time and the id,
// which differ between any two signatures.
func renew[C jwt.Claims](kept string, want C, with nkeys.KeyPair, decode func(string) (C, error)) (string, error) {
	token, err := want.Encode(with)
	if err != nil {
		return "", err
	}
	have, err := decode(kept)
	if err != nil {
		return token, nil // it is missing or unreadable
	}
	now, err := decode(token)
	if err != nil {
		return "", err
	}
	now.Claims().IssuedAt, now.Claims().ID = have.Claims().IssuedAt, have.Claims().ID
	if reflect.DeepEqual(have, now) {
		return kept, nil
	}
	return token, nil
}

// keepRevocations copies the revocations of an account's existing JWT.
func keepRevocations(account *jwt.AccountClaims, kept string) {
	before, err := jwt.DecodeAccountClaims(kept)
	if err != nil {
		return // it is missing or unreadable
	}
	for key, until := range before.Revocations {
		account.RevokeAt(key, time.Unix(until, 0))
	}
}

// nothingLost refuses to continue without a key that was in use: a new key in its place would shut out every
// user that the old key admitted.
func (a *Authority) nothingLost(kept Public) error {
	if kept.TombstoneKey != "" && kept.TombstoneKey != a.TombstoneKey {
		return fmt.Errorf(
			"the tombstone key is no longer in %s; put it back, or servers will not believe that they are dead",
			a.path("keys"))
	}
	for name, public := range kept.Names {
		if a.Names[name] != public {
			return fmt.Errorf("the key of account %s is no longer in %s; put it back", name, a.path("keys"))
		}
		before, err := jwt.DecodeAccountClaims(kept.Accounts[public])
		if err != nil {
			return fmt.Errorf("read account %s: %w", name, err)
		}
		after, err := jwt.DecodeAccountClaims(a.Accounts[public])
		if err != nil {
			return fmt.Errorf("read account %s: %w", name, err)
		}
		for key, scope := range before.SigningKeys {
			if moved(name, scope) {
				continue
			}
			if _, ok := after.SigningKeys[key]; !ok {
				return fmt.Errorf("the signing key %s of account %s is no longer in %s; put it back", key, name,
					a.path("keys"))
			}
		}
	}
	return nil
}

// moved reports whether an account no longer admits a kind of users; topology.Steps says since when.
func moved(account string, scope jwt.Scope) bool {
	s, ok := scope.(*jwt.UserScope)
	return ok && !slices.ContainsFunc(topology.Scopes(account), func(o topology.Scope) bool { return o.Name == s.Role })
}

// AdoptRevocations copies the keys that accounts refuse from another copy of an authority, in which the service
// access keeps them. It ignores a copy of another topology, and accounts that another operator signed. The error is
// nil when one of the two directories has no authority.
func AdoptRevocations(dir, from string) error {
	own := &Authority{dir: dir}
	kept, err := own.readPublic()
	if err != nil {
		return err
	}
	other, err := (&Authority{dir: from}).readPublic()
	if err != nil {
		return err
	}
	if kept.OperatorJWT == "" || kept.Topology != other.Topology {
		return nil
	}
	operator, err := jwt.DecodeOperatorClaims(kept.OperatorJWT)
	if err != nil {
		return fmt.Errorf("read operator: %w", err)
	}
	changed := false
	for public, token := range kept.Accounts {
		next, err := jwt.DecodeAccountClaims(other.Accounts[public]) // checks its signature
		if err != nil || next.Subject != public || next.Issuer != operator.Subject {
			continue
		}
		if !SameAccount(token, other.Accounts[public]) {
			kept.Accounts[public], changed = other.Accounts[public], true
		}
	}
	if !changed {
		return nil
	}
	data, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(own.path("authority.json"), data)
}
