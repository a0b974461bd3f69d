package trust

import (
	"fmt"

	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/fault"
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
