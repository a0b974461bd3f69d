//go:build seed_actfirst

package engine

import taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

// A bug on purpose, for make crash-seeds: the line of a step is written when it is done.
func (c *change) enter(s taskv1.Step) error {
	err := c.save()
	c.rec.Step = s
	return err
}
