// Package lobby is the noun lobby: keys of machines that ask to join without a token. Who waits is no fact; that an
// operator rejected a key is one. The registry writes the noun.
//
//	next, fit := lobby.Apply(record, fact)
//	fingerprint := lobby.Fingerprint(publicKey)
package lobby

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	lobbyv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/lobby/v1"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = declared.Table{
	declared.Absent:  {"rejected": declared.Present},
	declared.Present: {"rejected": declared.Present},
}

// Apply folds a fact into a rejection, as declared.Set does.
func Apply(have *lobbyv1.Rejection, f ledger.Fact) (*lobbyv1.Rejection, bool) {
	return declared.Set(Life, have, f, func(r *lobbyv1.Rejection) { r.PublicKey, r.RejectedBy = f.Key, f.Actor })
}

// Holds reports whether a rejection holds at a time.
func Holds(r *lobbyv1.Rejection, at time.Time) bool { return r != nil && at.Before(r.Until.AsTime()) }

const (
	// fingerprintBytes is how much of a key's hash its fingerprint shows: with 100 bits, no other key with
	// the same one is found.
	fingerprintBytes = 20
	groupLength      = 4
)

// Fingerprint returns what a person compares of a key, as in "K7QF-XMZA-3B2T-WE5J-HN4Y": twenty letters and digits of
// the base32 of its SHA-256.
func Fingerprint(publicKey string) string {
	sum := sha256.Sum256([]byte("garrison lobby v1\n" + publicKey))
	text := base32.StdEncoding.EncodeToString(sum[:])[:fingerprintBytes]
	return strings.Join(slices.Collect(groups(text)), "-")
}

func groups(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for g := range slices.Chunk([]byte(text), groupLength) {
			if !yield(string(g)) {
				return
			}
		}
	}
}
