package changes_test

import (
	"testing"

	"github.com/garrison-fleet/garrison/e2e/scenario"
)

func TestMain(m *testing.M) { scenario.Main(m) }

// world is a fleet with the steps of these tests.
type world struct{ *scenario.World }
