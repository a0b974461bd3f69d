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
	"github.com/garrison-fleet/garrison/pkg/strictdir"
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

// OpenSigner reads the signer kept in dir. It refuses a directory that another user could change.
func OpenSigner(dir string) (*Signer, error) {
	if err := strictdir.Tree(dir); err != nil {
		return nil, err
	}
	s := &Signer{}
	keys := map[string]*signingKey{"node": &s.node, "guest": &s.guest, tombstoneKeyName: &s.tombstone}
	for name, key := range keys {
		data, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err == nil {
			err = json.Unmarshal(data, key)
		}
		if err != nil {
			return nil, fmt.Errorf("read signing key %s: %w", name, err)
		}
	}
	return s, nil
}

// Server signs the JWT of a server for the public key that the server created, valid until expires; the zero
// time means no expiry. The error is Invalid when that is not a user's key.
func (s *Signer) Server(publicKey, serverID, cell string, expires time.Time) (string, error) {
	if !nkeys.IsValidPublicUserKey(publicKey) {
		return "", fault.New(fault.Invalid, "public key %q is not a user's key", publicKey)
	}
	return s.node.user(serverID, publicKey, []string{"cell:" + cell}, expires)
}

// Guest is the credentials of an invited server. They permit only enrolment.
type Guest struct {
	PublicKey string
	JWT       string
	Seed      []byte
}

// Guest creates the credentials of an invited server.
func (s *Signer) Guest(serverID, cell string, expires time.Time) (Guest, error) {
	public, seed, err := NewUserKey()
	if err != nil {
		return Guest{}, err
	}
	token, err := s.guest.user(serverID, public, []string{"cell:" + cell}, expires)
	return Guest{PublicKey: public, JWT: token, Seed: seed}, err
}

// user signs a scoped user: it has a name, a key and tags; the account holds its permissions.
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

// CheckUserKey returns an error unless the seed is the private half of a user's public key.
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

// NewUserKey creates a key pair for a user.
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
