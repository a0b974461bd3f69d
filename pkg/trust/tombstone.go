package trust

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fault"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// tombstoneKeyName is the key that signs tombstones, among the keys and in the signer.
const tombstoneKeyName = "tombstone"

// makeTombstoneKey creates the key whose signature proves to a server that it is dead, and stores a copy for
// the signer. It is a separate key: the permission to admit servers does not include ending them.
func (a *Authority) makeTombstoneKey() error {
	pair, public, err := a.key(tombstoneKeyName, nkeys.CreateAccount)
	if err != nil {
		return err
	}
	seed, err := pair.Seed()
	if err != nil {
		return fmt.Errorf("key %s: %w", tombstoneKeyName, err)
	}
	a.TombstoneKey = public
	return a.keepForSigner(tombstoneKeyName, signingKey{Account: public, Seed: string(seed)})
}

// keepForSigner stores a key in the signer's directory, unless it exists there.
func (a *Authority) keepForSigner(name string, key signingKey) error {
	path := a.path("signer", name+".json")
	var have signingKey
	if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &have) == nil && have == key {
		return nil
	}
	return writeJSON(path, key)
}

// TombstoneKey returns the public half of the key that signs tombstones.
func (s *Signer) TombstoneKey() string { return s.tombstone.Account }

// Tombstone signs that a server is dead.
func (s *Signer) Tombstone(serverID, cell string, at time.Time) (*serverv1.Tombstone, error) {
	pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(s.tombstone.Seed)))
	if err != nil {
		return nil, fmt.Errorf("read tombstone key: %w", err)
	}
	defer pair.Wipe()
	t := &serverv1.Tombstone{ServerId: serverID, Cell: cell, SignedAt: timestamppb.New(at.UTC().Truncate(time.Second))}
	if t.Signature, err = pair.Sign(tombstoneText(t)); err != nil {
		return nil, fmt.Errorf("sign tombstone of %s: %w", serverID, err)
	}
	return t, nil
}

// CheckTombstone reports whether a tombstone was signed by the key whose public half is
// given. The error is Denied when it was not, and Invalid when the key is not valid.
func CheckTombstone(t *serverv1.Tombstone, publicKey string) error {
	if !nkeys.IsValidPublicAccountKey(publicKey) {
		return fault.New(fault.Invalid, "tombstone key %q is not an account's key", publicKey)
	}
	pair, err := nkeys.FromPublicKey(publicKey)
	if err != nil {
		return fault.New(fault.Invalid, "tombstone key %q: %w", publicKey, err)
	}
	if err := pair.Verify(tombstoneText(t), t.GetSignature()); err != nil {
		return fault.New(fault.Denied, "tombstone of %s: %w", t.GetServerId(), err)
	}
	return nil
}

// tombstoneText returns the text to sign; see garrison.server.v1.Tombstone.
func tombstoneText(t *serverv1.Tombstone) []byte {
	at := t.GetSignedAt().AsTime().UTC().Format(time.RFC3339)
	return []byte("garrison tombstone v1\n" + t.GetServerId() + "\n" + t.GetCell() + "\n" + at + "\n")
}
