package engine

import (
	"slices"

	"github.com/garrison-fleet/garrison/pkg/version"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// The codes of what an image needs of the server and does not find.
const (
	CodeExecutorTooOld    = "EXECUTOR_TOO_OLD"
	CodeConflicts         = "CONFLICTS"
	CodeMissingDependency = "MISSING_DEPENDENCY"
)

// checkNeeds looks whether this executor and the other agents on the server are what the image needs.
func (c *change) checkNeeds() error {
	if least := c.rec.To.GetExecutorVersion(); version.Before(c.cfg.Version, least) {
		return refuse(CodeExecutorTooOld, "the image needs an executor of version %s; this one is %s", least, c.cfg.Version)
	} else if least != "" && version.Unversioned(c.cfg.Version) {
		c.log.Warn().Str("needs", least).Str("executor", c.cfg.Version).
			Msg("this executor is a build without a version and counts as the newest")
	}
	var have, coming []*journal.Change
	err := c.cfg.Journal.Read(func(tx *journal.Tx) error {
		instances, err := tx.Instances()
		if err != nil {
			return err
		}
		for _, i := range instances {
			have = append(have, &journal.Change{Agent: i.Agent, To: i.Image})
		}
		coming, err = tx.Changes()
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range c.rec.Needs {
		if !slices.ContainsFunc(have, func(h *journal.Change) bool { return h.Agent == d }) {
			return refuse(CodeMissingDependency, "it needs agent %s, which is not on the server", d)
		}
	}
	for _, other := range slices.Concat(have, slices.DeleteFunc(coming, c.comesAfter)) {
		if other.Agent == c.rec.Agent {
			continue
		}
		if slices.Contains(c.rec.To.GetConflicts(), other.Agent) || slices.Contains(other.To.GetConflicts(), c.rec.Agent) {
			return refuse(CodeConflicts, "it must not be on a server with agent %s", other.Agent)
		}
	}
	return nil
}

// comesAfter says whether another open change need not be looked at: it removes, or it
// looks at this one. Of two agents that conflict, the change that began first goes on.
func (c *change) comesAfter(other *journal.Change) bool {
	if other.Verb == taskv1.Verb_VERB_REMOVE {
		return true // its agent is in the inventory until it is gone
	}
	if order := other.BeganAt.Compare(c.rec.BeganAt); order != 0 {
		return order > 0
	}
	return other.Agent > c.rec.Agent
}
