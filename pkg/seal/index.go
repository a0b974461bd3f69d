package seal

import (
	"slices"

	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/code"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// SignIndex signs the index of a source of images.
func SignIndex(index, seed []byte) (*sourcev1.SignedIndex, error) {
	pair, public, err := open(seed)
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	signature, err := pair.Sign(signedIndex(index))
	return &sourcev1.SignedIndex{
		Index: index, Signatures: []*imagev1.Signature{{Key: public, Signature: signature}},
	}, err
}

// CheckIndex refuses an index that none of the keys signed.
func CheckIndex(s *sourcev1.SignedIndex, keys []string) error {
	for _, made := range s.GetSignatures()[:min(len(s.GetSignatures()), maxSignatures)] {
		pair, err := nkeys.FromPublicKey(made.GetKey())
		if err == nil && slices.Contains(keys, made.GetKey()) &&
			pair.Verify(signedIndex(s.GetIndex()), made.GetSignature()) == nil {
			return nil
		}
	}
	return refuse(code.UnknownSigner, "none of the trusted keys (%d) signed the index", len(keys))
}

// signedIndex returns the text that is signed. Its prefix keeps a signature of other data from counting as an index's.
func signedIndex(index []byte) []byte { return append([]byte("garrison source v1\n"), index...) }
