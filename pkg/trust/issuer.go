package trust

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
)

// Issuer is what the service access holds of an authority: the operator key, which signs accounts with
// the keys that they refuse, and the keys that sign people. It is safe for concurrent use.
type Issuer struct {
	authority *Authority
	mu        sync.Mutex // of authority.json
}

// OpenIssuer reads the authority kept in dir. It changes nothing, and refuses keys that another user could change.
func OpenIssuer(dir string) (*Issuer, error) {
	if err := strictdir.Tree(filepath.Join(dir, "keys")); err != nil {
		return nil, err
	}
	a := &Authority{dir: dir}
	var err error
	if a.Public, err = a.readPublic(); err != nil {
		return nil, err
	}
	if a.OperatorJWT == "" {
		return nil, fault.New(fault.Invalid, "there is no authority in %s; create one with: garrisond keys", dir)
	}
	return &Issuer{authority: a}, nil
}

// AccountKey returns the public key of an account.
func (i *Issuer) AccountKey(account string) string { return i.authority.Names[account] }

// seed reads a key of the authority.
func (i *Issuer) seed(name string) (nkeys.KeyPair, error) {
	data, err := os.ReadFile(filepath.Join(i.authority.dir, "keys", name+".seed"))
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w", name, err)
	}
	pair, err := nkeys.FromSeed(data)
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w", name, err)
	}
	return pair, nil
}

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
