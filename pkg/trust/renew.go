package trust

import (
	"fmt"
	"reflect"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// renew signs claims, unless they are signed already as they are. What differs between
// two signatures of one thing, its time and its id, is not compared.
func renew[C jwt.Claims](kept string, want C, with nkeys.KeyPair, decode func(string) (C, error)) (string, error) {
	token, err := want.Encode(with)
	if err != nil {
		return "", err
	}
	have, err := decode(kept)
	if err != nil {
		return token, nil // there is none, or it cannot be read
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

// nothingLost refuses to go on without a key that was in use: with a new one in its
// place, everybody whom it admitted would be shut out.
func (a *Authority) nothingLost(kept Public) error {
	if kept.TombstoneKey != "" && kept.TombstoneKey != a.TombstoneKey {
		return fmt.Errorf("the tombstone key is not in %s any more; put it back, or servers will not believe that they are dead", a.path("keys"))
	}
	for name, public := range kept.Names {
		if a.Names[name] != public {
			return fmt.Errorf("the key of account %s is not in %s any more; put it back", name, a.path("keys"))
		}
		before, err := jwt.DecodeAccountClaims(kept.Accounts[public])
		if err != nil {
			return fmt.Errorf("read account %s: %w", name, err)
		}
		after, err := jwt.DecodeAccountClaims(a.Accounts[public])
		if err != nil {
			return fmt.Errorf("read account %s: %w", name, err)
		}
		for key := range before.SigningKeys {
			if _, ok := after.SigningKeys[key]; !ok {
				return fmt.Errorf("the signing key %s of account %s is not in %s any more; put it back", key, name, a.path("keys"))
			}
		}
	}
	return nil
}
