package trust

import (
	"encoding/json"
	"fmt"

	"github.com/nats-io/jwt/v2"
)

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
