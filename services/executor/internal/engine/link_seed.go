//go:build seed_trustlink

package engine

import (
	"os"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// A bug on purpose, for make crash-seeds: after a crash a link that is there is trusted.
func (c *change) link(m journal.Manifest) error {
	current := c.cfg.Root.Current(c.rec.Agent)
	if _, err := os.Readlink(current); err == nil && c.resumed {
		return nil
	}
	return layout.Link(c.cfg.Root.ImageLink(m.Digest()), current)
}
