//go:build !seed_trustlink

package engine

import (
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// link makes an image the current one, wherever the link led before: after a crash that
// is not asked.
func (c *change) link(m journal.Manifest) error {
	return layout.Link(c.cfg.Root.ImageLink(m.Digest()), c.cfg.Root.Current(c.rec.Agent))
}
