package trust

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// MaxRevoked is how many keys one account can refuse: its JWT travels in one message of the bus.
const MaxRevoked = 10_000

// maxAccountJWT bounds the JWT of an account.
const maxAccountJWT = 1000 << 10

// forever is after every time at which a JWT can have been issued.
var forever = time.Unix(9_999_999_999, 0)

// Revoke returns the JWT of an account that refuses exactly the given keys, whenever their JWTs were
// issued, and keeps it in authority.json. Without a change it returns the JWT that is kept. The error
// is Invalid when the keys do not fit into one message.
func (i *Issuer) Revoke(account string, keys []string) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	kept, err := i.authority.readPublic() // another process may have signed it again
	if err != nil {
		return "", err
	}
	public := kept.Names[account]
	claims, err := jwt.DecodeAccountClaims(kept.Accounts[public])
	if err != nil {
		return "", fmt.Errorf("read account %s: %w", account, err)
	}
	claims.Revocations = nil
	for _, k := range keys {
		claims.RevokeAt(k, forever)
	}
	operator, err := i.seed("operator")
	if err != nil {
		return "", err
	}
	defer operator.Wipe()
	token, err := renew(kept.Accounts[public], claims, operator, jwt.DecodeAccountClaims)
	if err != nil {
		return "", fmt.Errorf("sign account %s: %w", account, err)
	}
	if len(token) > maxAccountJWT {
		return "", fault.New(fault.Invalid, "the JWT of account %s with %d revoked keys has %d bytes, want at most %d",
			account, len(keys), len(token), maxAccountJWT)
	}
	if token == kept.Accounts[public] {
		return token, nil
	}
	kept.Accounts[public] = token
	data, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return "", err
	}
	return token, writeFile(i.authority.path("authority.json"), data)
}

// SameAccount reports whether two JWTs of an account say the same. Their times and ids may differ.
func SameAccount(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := jwt.DecodeAccountClaims(a)
	y, errY := jwt.DecodeAccountClaims(b)
	if errX != nil || errY != nil {
		return false
	}
	y.IssuedAt, y.ID = x.IssuedAt, x.ID
	return reflect.DeepEqual(x, y)
}
