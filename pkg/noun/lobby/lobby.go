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

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	lobbyv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/lobby/v1"
)

// State is whether a key was ever rejected.
type State string

// The states.
const (
	Unknown  State = "unknown"
	Rejected State = "rejected"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = fsm.Table[State, string]{
	Unknown:  {"rejected": Rejected},
	Rejected: {"rejected": Rejected},
}

// Apply folds a fact into a rejection, which is nil for an unknown key, and returns the one after it. It returns false,
// and the record unchanged, for a fact that does not fit.
func Apply(have *lobbyv1.Rejection, f ledger.Fact) (*lobbyv1.Rejection, bool) {
	state := Unknown
	if have != nil {
		state = Rejected
	}
	b, ok := f.Body.(*lobbyv1.Rejected)
	if _, fit := Life.Next(state, f.Name()); !fit || !ok {
		return have, false
	}
	return &lobbyv1.Rejection{PublicKey: f.Key, Reason: b.Reason, Until: b.Until, RejectedBy: f.Actor}, true
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
