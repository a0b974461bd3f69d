package work

import (
	"testing"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/client"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func TestAStaleOrConflictingIntentHasTheExitCodeOfAConflict(t *testing.T) {
	for code, want := range map[string]int{
		"CONFLICT": cli.ExitConflict, "PLAN_STALE": cli.ExitConflict,
		"DENIED": cli.ExitDenied, "NO_MATCH": cli.ExitError,
	} {
		if got := cli.CodeOf(client.Refused(&apiv1.Refusal{Code: code})); got != want {
			t.Errorf("%s: have exit code %d, want %d", code, got, want)
		}
	}
}
