package image

import (
	"slices"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/version"
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
