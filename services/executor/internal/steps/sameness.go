package steps

import (
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
)

// Sameness finds changes that ask for what is installed and runs: their health is checked, and nothing is touched.
type Sameness struct {
	Configs agent.Configs
	Compare Compare
}

// Touches reports whether a change may touch its agent. It may be asked before the configuration is rendered.
func (s Sameness) Touches(r *Run) bool {
	if r.Removes() || !r.SameImage() || r.From.Foreign() {
		return true
	}
	tree, err := s.Configs.Render(agent.Coming(r.Record))
	if err != nil {
		return true
	}
	coming := *r.Record
	coming.Rendered = tree.Digest()
	if s.Compare.Reload(&coming) != ReloadNothing {
		return true
	}
	return !s.Compare.Whole(r.From) || r.To.IsDaemon() && !s.Compare.Runs(&coming)
}
