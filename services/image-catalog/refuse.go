package catalog

import (
	"fmt"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

func refuse(kind fault.Kind, code, format string, args ...any) error {
	return fault.Refuse(kind, &apiv1.Refusal{Code: code, Component: ledger.Catalog, Message: fmt.Sprintf(format, args...)})
}
