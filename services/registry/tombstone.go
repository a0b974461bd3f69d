package registry

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// signDeaths puts a tombstone into each fact that says that a server is dead. It is the
// only place where one is made: the decision and its proof are one fact, so nobody has a
// proof of what is not recorded. cellOf gives a server's site. An error is Unavailable when
// this registry has no keys: a death without its proof would never be followed.
func (r *Registry) signDeaths(drafts []ledger.Draft, cellOf func(server string) string) error {
	for _, d := range drafts {
		dead, ok := d.Body.(*serverv1.Dead)
		if !ok {
			continue
		}
		if r.Signer == nil {
			return fault.New(fault.Unavailable, "this registry has no signing keys, so it cannot record the end of server %s", d.Key)
		}
		var err error
		if dead.Tombstone, err = r.Signer.Tombstone(d.Key, cellOf(d.Key), d.At); err != nil {
			return fmt.Errorf("sign the end of server %s: %w", d.Key, err)
		}
	}
	return nil
}
