package manifest

import (
	"fmt"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/version"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// The bounds of what a manifest says about other versions and agents.
const (
	maxRanges    = 16
	maxSkips     = 64
	maxRequires  = 64
	maxConflicts = 64
)

// tooMany adds the fault of a list with more than most elements.
func (f *Faults) tooMany(field string, n, most int) {
	if n > most {
		f.Add(field, code.BadManifest, "%s has %d elements, want at most %d", field, n, most)
	}
}

// at returns the field of an element of a list.
func at(list string, n int) string { return fmt.Sprintf("%s[%d]", list, n) }

// paths looks at which versions an image may replace, and which may replace it.
func (f *Faults) paths(m *imagev1.Manifest) {
	f.tooMany("upgrades_from", len(m.GetUpgradesFrom()), maxRanges)
	f.tooMany("skips", len(m.GetSkips()), maxSkips)
	for n, text := range m.GetUpgradesFrom() {
		if _, err := version.ParseRange(text); err != nil {
			f.Add(at("upgrades_from", n), code.BadManifest, "upgrades_from: %v", err)
		}
	}
	for n, text := range m.GetSkips() {
		if err := CheckVersion(text); err != nil {
			f.Add(at("skips", n), code.BadVersion, "skips: %v", err)
		}
		if text == m.Version || slices.Contains(m.Skips[:n], text) {
			f.Add(at("skips", n), code.BadManifest,
				"skips names %q, which is the version itself or a duplicate", text)
		}
	}
	if floor := m.GetFloor(); floor == "" {
		return
	} else if err := CheckVersion(floor); err != nil {
		f.Add("floor", code.BadVersion, "floor %v", err)
	} else if version.Compare(floor, m.Version) > 0 {
		f.Add("floor", code.BadManifest, "floor %s is higher than the version %s itself", floor, m.Version)
	}
}

// requires looks at the agents that an image works with.
func (f *Faults) requires(m *imagev1.Manifest) {
	f.tooMany("requires", len(m.GetRequires()), maxRequires)
	before := map[string]bool{}
	for n, q := range m.GetRequires() {
		field := at("requires", n)
		if err := ident.CheckName("requires", q.GetAgent()); err != nil {
			f.Add(field, code.BadName, "%v", err)
		}
		if q.GetAgent() == m.Agent || before[q.GetAgent()] || slices.Contains(m.Conflicts, q.GetAgent()) {
			f.Add(field, code.BadManifest,
				"requires names %q, which is the agent itself, a duplicate, or one of conflicts", q.GetAgent())
		}
		before[q.GetAgent()] = true
		if q.GetVersions() == "" {
			continue
		}
		if _, err := version.ParseRange(q.Versions); err != nil {
			f.Add(field, code.BadManifest, "requires %s: %v", q.Agent, err)
		}
	}
}

// conflicts looks at the agents that must not be on the same server.
func (f *Faults) conflicts(m *imagev1.Manifest) {
	f.tooMany("conflicts", len(m.GetConflicts()), maxConflicts)
	for n, c := range m.GetConflicts() {
		if err := ident.CheckName("conflicts", c); err != nil {
			f.Add(at("conflicts", n), code.BadName, "%v", err)
		}
		if c == m.Agent || slices.Contains(m.Conflicts[:n], c) {
			f.Add(at("conflicts", n), code.BadManifest,
				"conflicts names %q, which is the agent itself or a duplicate", c)
		}
	}
}

// needs looks at what an image needs of a server: an executor that can run it, and agents that are or are not there.
func (f *Faults) needs(m *imagev1.Manifest) {
	if v := m.GetExecutorVersion(); v != "" {
		if err := checkSemantic(v); err != nil {
			f.Add("executor_version", code.BadVersion, "executor_version %v", err)
		}
	}
	f.conflicts(m)
	f.requires(m)
}
