package registry

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// tombstones signs the deaths of servers.
type tombstones struct{ signer Signer }

// sign puts a tombstone into each fact that a server is dead. Tombstones are made nowhere else: the
// decision and its proof are one fact, so no proof exists of a death that is not recorded. cellOf
// returns a server's cell. An error is Unavailable when this registry has no keys, because no
// executor would follow a death without its proof.
func (t tombstones) sign(drafts []ledger.Draft, cellOf func(server string) string) error {
	for _, d := range drafts {
		dead, ok := d.Body.(*serverv1.Dead)
		if !ok {
			continue
		}
		if t.signer == nil {
			return fault.New(fault.Unavailable,
				"this registry has no signing keys, so it cannot record the end of server %s", d.Key)
		}
		var err error
		if dead.Tombstone, err = t.signer.Tombstone(d.Key, cellOf(d.Key), d.At); err != nil {
			return fmt.Errorf("sign the end of server %s: %w", d.Key, err)
		}
	}
	return nil
}
