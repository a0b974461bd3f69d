package steps

import (
	"context"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// CheckNeeds refuses an image that needs a newer executor, misses an agent, or conflicts with one.
type CheckNeeds struct {
	Version string // the executor's own
	Journal *journal.Journal
}

// Do implements Step.
func (s CheckNeeds) Do(_ context.Context, r *Run) error {
	if least := r.To.GetExecutorVersion(); version.Before(s.Version, least) {
		return refuse(
			code.ExecutorTooOld,
			"the image needs an executor of version %s; this one is %s",
			least,
			s.Version,
		)
	} else if least != "" && version.Unversioned(s.Version) {
		r.Log.Warn().Str("needs", least).Str("executor", s.Version).
			Msg("this executor is a build without a version and counts as the newest")
	}
	in, err := s.Journal.Inventory()
	if err != nil {
		return err
	}
	for _, name := range r.Needs {
		if !slices.ContainsFunc(in.Instances, func(i *change.Instance) bool { return i.Agent == name }) {
			return refuse(code.MissingDependency, "it needs agent %s, which is not on the server", name)
		}
	}
	for _, i := range in.Instances {
		if err := conflict(r.Record, i.Agent, i.Image); err != nil {
			return err
		}
	}
	for _, other := range in.Changes {
		if !yields(r.Record, other) {
			continue
		}
		if err := conflict(r.Record, other.Agent, other.To); err != nil {
			return err
		}
	}
	return nil
}

func conflict(r *change.Record, other string, image change.Manifest) error {
	if other != r.Agent && (slices.Contains(r.To.GetConflicts(), other) ||
		slices.Contains(image.GetConflicts(), r.Agent)) {
		return refuse(code.Conflicts, "it must not be on a server with agent %s", other)
	}
	return nil
}

// yields reports whether a change yields to another open one with which it conflicts. The one
// that began first goes on. A removal's agent is in the inventory until it is gone.
func yields(r, other *change.Record) bool {
	if other.Removes() {
		return false
	}
	if order := other.BeganAt.Compare(r.BeganAt); order != 0 {
		return order < 0
	}
	return other.Agent < r.Agent
}
