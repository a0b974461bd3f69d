// Package signing is how the registry signs what servers need to enter and to leave the fleet.
package signing

import (
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/trust"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Signer signs what servers need to enter and to leave the fleet. *trust.Signer implements it.
type Signer interface {
	// Server signs the JWT of a server for the public key that it made.
	Server(publicKey, serverID, cell string, expires time.Time) (jwt string, err error)
	// Guest creates credentials that permit nothing but enrolment.
	Guest(serverID, cell string, expires time.Time) (trust.Guest, error)
	// TombstoneKey returns the public half of the key that signs tombstones; empty without one.
	TombstoneKey() string
	// Tombstone signs that a server is dead; it returns nil without a key.
	Tombstone(serverID, cell string, at time.Time) (*serverv1.Tombstone, error)
}

// Tombstones signs the deaths of servers.
type Tombstones struct{ Signer Signer }

// Sign puts a tombstone into each fact that a server is dead. Tombstones are made nowhere else: the
// decision and its proof are one fact, so no proof exists of a death that is not recorded. cellOf
// returns a server's cell. An error is Unavailable when this registry has no keys, because no
// executor would follow a death without its proof.
func (t Tombstones) Sign(drafts []ledger.Draft, cellOf func(server string) string) error {
	for _, d := range drafts {
		dead, ok := d.Body.(*serverv1.Dead)
		if !ok {
			continue
		}
		if t.Signer == nil {
			return fault.New(fault.Unavailable,
				"this registry has no signing keys, so it cannot record the end of server %s", d.Key)
		}
		var err error
		if dead.Tombstone, err = t.Signer.Tombstone(d.Key, cellOf(d.Key), d.At); err != nil {
			return fmt.Errorf("sign the end of server %s: %w", d.Key, err)
		}
	}
	return nil
}
