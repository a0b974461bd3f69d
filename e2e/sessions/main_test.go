package sessions_test

import (
	"os"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

func TestMain(m *testing.M) { os.Exit(scenario.Main(m)) }

type world struct{ *scenario.World }

func newWorld(t *testing.T, o fleet.Options, servers ...string) *world {
	t.Helper()
	return &world{scenario.New(t, o, servers...)}
}
