// Package seal signs the manifests of images and the checksums of releases, and tells whether they are to be trusted.
//
//	public, seed, err := seal.NewKey()
//	err = seal.Sign(manifest, seed)
//	err = seal.Trust(manifest, []string{public})
//
// Guarantees:
//
//  1. A manifest that Trust lets pass is, but for the digests of its chunks, byte for byte
//     what one of the keys signed; and the digest of the whole, which is signed, vouches
//     for the chunks.
//  2. Every refusal is of kind Invalid and has a code.
package seal

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// maxSignatures bounds the signatures of an image: for a change of keys two are enough.
const maxSignatures = 8

// NewKey makes a key that signs images. The seed is the secret half.
func NewKey() (public string, seed []byte, err error) {
	pair, err := nkeys.CreateAccount()
	if err != nil {
		return "", nil, err
	}
	defer pair.Wipe()
	if public, err = pair.PublicKey(); err != nil {
		return "", nil, err
	}
	// Wiping the pair wipes its own copy of the seed.
	if seed, err = pair.Seed(); err != nil {
		return "", nil, err
	}
	return public, bytes.Clone(seed), nil
}

// Public returns the public half of a key.
func Public(seed []byte) (string, error) {
	pair, public, err := open(seed)
	if pair != nil {
		pair.Wipe()
	}
	return public, err
}

// CheckKey refuses what is not the public half of a key that signs images.
func CheckKey(public string) error {
	if strings.HasPrefix(public, "S") { // a seed is not repeated
		return refuse(code.BadImageKey, "this is the secret half of a key; the public half begins with A")
	}
	if !nkeys.IsValidPublicAccountKey(public) {
		return refuse(code.BadImageKey,
			"%.80q is not the public half of a key that signs images (want 56 letters and digits, A first)", public)
	}
	return nil
}

// Sign adds a signature to a manifest, in the place of one by the same key.
func Sign(m *imagev1.Manifest, seed []byte) error {
	pair, public, err := open(seed)
	if err != nil {
		return err
	}
	defer pair.Wipe()
	statement, err := proto.MarshalOptions{Deterministic: true}.Marshal(bare(m))
	if err != nil {
		return err
	}
	signature, err := pair.Sign(signed(statement))
	if err != nil {
		return err
	}
	if m.Seal == nil || !bytes.Equal(m.Seal.Statement, statement) {
		m.Seal = &imagev1.Seal{Statement: statement} // other signatures were of another manifest
	}
	m.Seal.Signatures = slices.DeleteFunc(m.Seal.Signatures,
		func(s *imagev1.Signature) bool { return s.GetKey() == public })
	m.Seal.Signatures = append(m.Seal.Signatures, &imagev1.Signature{Key: public, Signature: signature})
	return Check(m)
}

// Keys are the public halves of the keys that sign images, as a flag that may be repeated.
type Keys []string

// String implements flag.Value.
func (k *Keys) String() string { return strings.Join(*k, ",") }

// Set implements flag.Value. Several keys may be given at once, with commas.
func (k *Keys) Set(text string) error {
	for key := range strings.SplitSeq(text, ",") {
		if err := CheckKey(key); err != nil {
			return err
		}
		*k = append(*k, key)
	}
	return nil
}

// Trust refuses a manifest that none of the keys signed.
func Trust(m *imagev1.Manifest, keys []string) error {
	if m.GetSeal() == nil {
		return refuse(code.UnsignedImage, "image %s of %s is not signed", m.GetVersion(), m.GetAgent())
	}
	if err := Check(m); err != nil {
		return err
	}
	if Names(m, keys) {
		return nil
	}
	return refuse(code.UnknownSigner, "image %s of %s is signed by %s, which is not trusted here", m.GetVersion(),
		m.GetAgent(), m.Seal.Signatures[0].GetKey())
}

// Names reports whether the seal of a manifest names one of the keys. It does not check the signature.
func Names(m *imagev1.Manifest, keys []string) bool {
	return slices.ContainsFunc(m.GetSeal().GetSignatures(), func(s *imagev1.Signature) bool {
		return slices.Contains(keys, s.GetKey())
	})
}

// Check refuses a seal that is not of this manifest, or that a key which it names did not make.
func Check(m *imagev1.Manifest) error {
	seal := m.GetSeal()
	if seal == nil {
		return nil
	}
	if n := len(seal.Signatures); n == 0 || n > maxSignatures {
		return refuse(code.BadSignature, "the seal has %d signatures, want 1 to %d", n, maxSignatures)
	}
	said := &imagev1.Manifest{}
	if err := proto.Unmarshal(seal.Statement, said); err != nil || !proto.Equal(said, bare(m)) {
		return refuse(code.BadSignature, "image %s of %s is not what was signed", m.GetVersion(), m.GetAgent())
	}
	seen := map[string]bool{}
	for _, s := range seal.Signatures {
		if err := CheckKey(s.GetKey()); err != nil {
			return err
		}
		pair, err := nkeys.FromPublicKey(s.GetKey())
		if err != nil || seen[s.GetKey()] || pair.Verify(signed(seal.Statement), s.GetSignature()) != nil {
			return refuse(code.BadSignature, "the signature of image %s of %s is not by key %s, or is there twice",
				m.GetVersion(), m.GetAgent(), s.GetKey())
		}
		seen[s.GetKey()] = true
	}
	return nil
}

// bare is what is signed of a manifest.
func bare(m *imagev1.Manifest) *imagev1.Manifest {
	b := proto.CloneOf(m)
	b.Seal = nil
	if b.Blob != nil {
		b.Blob.ChunkDigests = nil
	}
	return b
}

// signed returns the text that is signed. Its prefix keeps a signature of other data from counting as an image's.
func signed(statement []byte) []byte {
	return append([]byte("garrison image v1\n"), statement...)
}

func refuse(code, format string, args ...any) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: code, Message: fmt.Sprintf(format, args...)})
}
