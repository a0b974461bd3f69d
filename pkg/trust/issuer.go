package trust

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

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
