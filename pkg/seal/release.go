package seal

import (
	"bytes"

	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// SignSums signs the list of checksums of a release, and returns the signature and the public half of the key.
func SignSums(sums, seed []byte) (public string, signature []byte, err error) {
	pair, public, err := open(seed)
	if err != nil {
		return "", nil, err
	}
	defer pair.Wipe()
	signature, err = pair.Sign(signedSums(sums))
	return public, signature, err
}

// CheckSums refuses a list of checksums that none of the keys signed. It needs no clock: a key never expires.
func CheckSums(sums, signature []byte, keys []string) error {
	for _, key := range keys {
		pair, err := nkeys.FromPublicKey(key)
		if err == nil && pair.Verify(signedSums(sums), signature) == nil {
			return nil
		}
	}
	return refuse(code.UnknownSigner, "none of the trusted keys (%d) signed the checksums", len(keys))
}

// signedSums returns the text that is signed. Its prefix keeps a signature of an image from counting as a release's.
func signedSums(sums []byte) []byte { return append([]byte("garrison release v1\n"), sums...) }

// open reads the secret half of a key. The caller wipes the pair.
func open(seed []byte) (pair nkeys.KeyPair, public string, err error) {
	if pair, err = nkeys.FromSeed(bytes.TrimSpace(seed)); err != nil {
		return nil, "", refuse(code.BadImageKey, "the key cannot be read: %v (want what garrison image key writes)",
			err)
	}
	if public, err = pair.PublicKey(); err == nil {
		err = CheckKey(public)
	}
	return pair, public, err
}
