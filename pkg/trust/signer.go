package trust

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// signingKey is a scoped signing key of an account.
type signingKey struct {
	Account string `json:"account"` // the account's public key
	Seed    string `json:"seed"`
}

// Signer admits servers: it signs a guest's JWT at the invitation, and the server's own
// at enrolment. At a server's end it signs the tombstone.
type Signer struct {
	node, guest, tombstone signingKey
}

// OpenSigner reads the signer kept in dir.
func OpenSigner(dir string) (*Signer, error) {
	s := &Signer{}
	for name, key := range map[string]*signingKey{"node": &s.node, "guest": &s.guest} {
		data, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err == nil {
			err = json.Unmarshal(data, key)
		}
		if err != nil {
			return nil, fmt.Errorf("read signing key %s: %w", name, err)
		}
	}
	var err error
	s.tombstone, err = readTombstoneKey(dir)
	return s, err
}

// Server signs the JWT of a server for the public key that it made. An error is Invalid when that is not a user's key.
func (s *Signer) Server(publicKey, serverID, cell string) (string, error) {
	if !nkeys.IsValidPublicUserKey(publicKey) {
		return "", fault.New(fault.Invalid, "public key %q is not a user's key", publicKey)
	}
	return s.node.user(serverID, publicKey, []string{"cell:" + cell}, time.Time{})
}

// Guest makes the credentials with which an invited server may ask to enrol, and nothing else.
func (s *Signer) Guest(serverID, cell string, expires time.Time) (token string, seed []byte, err error) {
	public, seed, err := NewUserKey()
	if err != nil {
		return "", nil, err
	}
	token, err = s.guest.user(serverID, public, []string{"cell:" + cell}, expires)
	return token, seed, err
}

// user signs a scoped user: it has a name, a key and tags; what it may do stands in the account.
func (k signingKey) user(name, public string, tags []string, expires time.Time) (string, error) {
	pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(k.Seed)))
	if err != nil {
		return "", fmt.Errorf("read signing key: %w", err)
	}
	defer pair.Wipe()
	u := jwt.NewUserClaims(public)
	u.Name = name
	u.IssuerAccount = k.Account
	u.Tags.Add(tags...)
	u.SetScoped(true)
	if !expires.IsZero() {
		u.Expires = expires.Unix()
	}
	token, err := u.Encode(pair)
	if err != nil {
		return "", fmt.Errorf("sign user %s: %w", name, err)
	}
	return token, nil
}

// CheckUserKey reports why a seed is not the private half of a user's public key, or nil.
func CheckUserKey(public string, seed []byte) error {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return fmt.Errorf("read the seed: %w", err)
	}
	defer pair.Wipe()
	own, err := pair.PublicKey()
	if err == nil && (own != public || !nkeys.IsValidPublicUserKey(own)) {
		err = fault.New(fault.Invalid, "the seed is of the key %s, not of %s", own, public)
	}
	return err
}

// NewUserKey makes a key pair for a user.
func NewUserKey() (public string, seed []byte, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", nil, fmt.Errorf("make user key: %w", err)
	}
	if public, err = pair.PublicKey(); err != nil {
		return "", nil, fmt.Errorf("make user key: %w", err)
	}
	if seed, err = pair.Seed(); err != nil {
		return "", nil, fmt.Errorf("make user key: %w", err)
	}
	return public, seed, nil
}
