package image

import (
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
)

// maxConflicts is how many agents a manifest may keep away from.
const maxConflicts = 64

// checkNeeds looks at what an image needs of a server: an executor that can run it, and
// agents that are not there.
func checkNeeds(m *imagev1.Manifest) error {
	if v := m.GetExecutorVersion(); v != "" {
		if err := checkSemantic(v); err != nil {
			return refuse(code.BadVersion, "executor_version %v", err)
		}
	}
	if len(m.Conflicts) > maxConflicts {
		return refuse(code.BadManifest, "conflicts names %d agents, want at most %d", len(m.Conflicts), maxConflicts)
	}
	if err := checkRequires(m); err != nil {
		return err
	}
	before := map[string]bool{}
	for _, c := range m.Conflicts {
		if err := ident.CheckName("conflicts", c); err != nil {
			return refuse(code.BadName, "%v", err)
		}
		if c == m.Agent || before[c] {
			return refuse(code.BadManifest, "conflicts names %q, which is the agent itself or is there twice", c)
		}
		before[c] = true
	}
	return nil
}
