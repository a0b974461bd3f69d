package executor

import (
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
)

// trust refuses an image that none of this server's keys signed. Without keys it trusts all.
func (x *Executor) trust(m *imagev1.Manifest) error {
	keys, err := identity.ImageKeys(x.root)
	if err != nil {
		return fault.Refusef(fault.Invalid, code.ImageKeysUnreadable, "no image is accepted: %v", err).From("executor")
	}
	if keys == nil {
		return nil
	}
	return seal.Trust(m, keys)
}
