package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/secret"
)

// SealKey is a curve key (an xkey of NATS), for one answer that only its holder can read.
type SealKey struct{ pair nkeys.KeyPair }

// NewSealKey creates a key.
func NewSealKey() (SealKey, error) {
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		return SealKey{}, fmt.Errorf("make seal key: %w", err)
	}
	return SealKey{pair}, nil
}

// Public returns the public half of the key.
func (k SealKey) Public() string {
	public, _ := k.pair.PublicKey() // of a key that was just made
	return public
}

// Open returns what was sealed to the key by another one.
func (k SealKey) Open(sealed []byte, by string) ([]byte, error) {
	data, err := k.pair.Open(sealed, by)
	if err != nil {
		return nil, fault.New(fault.Invalid, "open a sealed answer: %w", err)
	}
	return data, nil
}

// SealTo seals data to the public half of a seal key, by a key that is made for that. The error is Invalid when
// that is not such a key.
func SealTo(public string, data []byte) (sealed []byte, by string, err error) {
	if !nkeys.IsValidPublicCurveKey(public) {
		return nil, "", fault.New(fault.Invalid, "seal key %q is not a curve key", public)
	}
	own, err := NewSealKey()
	if err != nil {
		return nil, "", err
	}
	if sealed, err = own.pair.Seal(data, public); err != nil {
		return nil, "", fault.New(fault.Invalid, "seal an answer: %w", err)
	}
	return sealed, own.Public(), nil
}

// secretKeyFile holds the key that seals the secrets of metadata. The registry and the task-dispatcher share it. Who
// has the ledger and this file has every secret; without the file they must be set again.
const secretKeyFile = "secrets.key"

// SecretKeyFile returns the file with the key of secrets, and creates it when it is missing.
func (a *Authority) SecretKeyFile() (string, error) {
	path := a.path(secretKeyFile)
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = writeFile(path, []byte(secret.NewKeyText()+"\n"))
	}
	if err != nil {
		return "", fmt.Errorf("key of secrets: %w", err)
	}
	return path, nil
}

// ReadSecretKey reads the key of secrets from a file; nil when no file is named.
func ReadSecretKey(path string) (*secret.Key, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("key of secrets: %w", err)
	}
	key, err := secret.ParseKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}
