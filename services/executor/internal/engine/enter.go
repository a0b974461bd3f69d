//go:build !seed_actfirst

package engine

import taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

// enter writes the line of a step, before anything of the step is done.
func (c *change) enter(s taskv1.Step) error {
	c.rec.Step = s
	return c.save()
}
