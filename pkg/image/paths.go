package image

import (
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/version"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// The bounds of what a manifest says about other versions.
const (
	maxRanges   = 16
	maxSkips    = 64
	maxRequires = 64
)

// checkPaths looks at which versions an image may replace, and which may replace it.
func checkPaths(m *imagev1.Manifest) error {
	if len(m.UpgradesFrom) > maxRanges || len(m.Skips) > maxSkips {
		return refuse(code.BadManifest, "upgrades_from has %d ranges and skips %d versions, want at most %d and %d",
			len(m.UpgradesFrom), len(m.Skips), maxRanges, maxSkips)
	}
	for _, text := range m.UpgradesFrom {
		if _, err := version.ParseRange(text); err != nil {
			return refuse(code.BadManifest, "upgrades_from: %v", err)
		}
	}
	for n, text := range m.Skips {
		if err := CheckVersion(text); err != nil {
			return refuse(code.BadVersion, "skips: %v", err)
		}
		if text == m.Version || slices.Contains(m.Skips[:n], text) {
			return refuse(code.BadManifest, "skips names %q, which is the version itself or is there twice", text)
		}
	}
	if m.Floor == "" {
		return nil
	}
	if err := CheckVersion(m.Floor); err != nil {
		return refuse(code.BadVersion, "floor %v", err)
	}
	if version.Compare(m.Floor, m.Version) > 0 {
		return refuse(code.BadManifest, "floor %s is higher than the version %s itself", m.Floor, m.Version)
	}
	return nil
}

// checkRequires looks at the agents that an image works with.
func checkRequires(m *imagev1.Manifest) error {
	if len(m.Requires) > maxRequires {
		return refuse(code.BadManifest, "requires names %d agents, want at most %d", len(m.Requires), maxRequires)
	}
	before := map[string]bool{}
	for _, q := range m.Requires {
		if err := ident.CheckName("requires", q.GetAgent()); err != nil {
			return refuse(code.BadName, "%v", err)
		}
		if q.Agent == m.Agent || before[q.Agent] || slices.Contains(m.Conflicts, q.Agent) {
			return refuse(code.BadManifest,
				"requires names %q, which is the agent itself, is there twice, or is one of conflicts", q.Agent)
		}
		before[q.Agent] = true
		if q.Versions == "" {
			continue
		}
		if _, err := version.ParseRange(q.Versions); err != nil {
			return refuse(code.BadManifest, "requires %s: %v", q.Agent, err)
		}
	}
	return nil
}

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
