package executor

import (
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
)

// CodeImageKeys says that nobody can tell whose images are trusted, so none is.
const CodeImageKeys = "IMAGE_KEYS_UNREADABLE"

// trust refuses an image that none of this server's keys signed. Without keys it trusts all.
func (x *Executor) trust(m *imagev1.Manifest) error {
	keys, err := identity.ImageKeys(x.root)
	if err != nil {
		return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: CodeImageKeys, Component: "executor", Message: "no image is taken: " + err.Error()})
	}
	if keys == nil {
		return nil
	}
	return seal.Trust(m, keys)
}
