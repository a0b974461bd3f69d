package steps

import (
	"context"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/version"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// CheckNeeds refuses an image that needs a newer executor or another machine, misses an agent, or conflicts with one.
type CheckNeeds struct {
	Version string // the executor's own
	Journal *journal.Journal
	Sysinfo func(context.Context) *serverv1.Sysinfo
}

// Do implements Step.
func (s CheckNeeds) Do(ctx context.Context, r *Run) error {
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
	if err := s.machine(ctx, r.Record); err != nil {
		return err
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
	if err := pairs(r.Record, in.Instances); err != nil {
		return err
	}
	for _, other := range in.Changes {
		if !yields(r.Record, other) {
			continue
		}
		if err := conflict(r.Record, other.Agent, other.To); err != nil {
			return err
		}
		if err := passing(r.Record, other); err != nil {
			return err
		}
	}
	return nil
}

// machine refuses an image that needs what this machine lacks. One that is there already is not questioned, so that it
// can be repaired.
func (s CheckNeeds) machine(ctx context.Context, r *change.Record) error {
	if r.To.GetMachine() == nil || r.SameImage() {
		return nil
	}
	if why := manifest.Words(manifest.Lacks(r.To.Machine, s.Sysinfo(ctx))); why != "" {
		return refuse(code.UnfitMachine, "the image cannot run on this machine: %s", why)
	}
	return nil
}

// passing refuses another image of an agent when it and one that another open change brings require other versions of
// each other. Without it, two changes that begin together would each see the version that the other one replaces.
func passing(r, other *change.Record) error {
	if r.SameImage() || other.SameImage() {
		return nil
	}
	comes := other.To.GetVersion()
	for _, q := range r.To.GetRequires() {
		if q.GetAgent() == other.Agent && !works(q, comes) {
			return refuse(code.RequirementUnmet, "it requires agent %s %s; a change to %s is under way", q.Agent,
				q.Versions, comes)
		}
	}
	for _, q := range other.To.GetRequires() {
		if q.GetAgent() == r.Agent && !works(q, r.To.GetVersion()) {
			return refuse(code.RequirementUnmet, "%s %s, to which a change is under way, requires it at %s",
				other.Agent, comes, q.Versions)
		}
	}
	return nil
}

// pairs refuses another image of an agent when it and what runs beside it require other versions of each other. An
// image that is there already is not questioned, so that it can be repaired.
func pairs(r *change.Record, there []*change.Instance) error {
	if r.SameImage() {
		return nil
	}
	for _, q := range r.To.GetRequires() {
		n := slices.IndexFunc(there, func(i *change.Instance) bool { return i.Agent == q.GetAgent() })
		if n < 0 {
			return refuse(code.RequirementUnmet, "it requires agent %s %s, which is not on the server", q.Agent,
				q.Versions)
		}
		if have := there[n].Image.GetVersion(); !works(q, have) {
			return refuse(code.RequirementUnmet, "it requires agent %s %s; %s is there", q.Agent, q.Versions,
				have)
		}
	}
	for _, i := range there {
		for _, q := range i.Image.GetRequires() {
			if i.Agent != r.Agent && q.GetAgent() == r.Agent && !works(q, r.To.GetVersion()) {
				return refuse(code.RequirementUnmet, "%s %s, which is there, requires it at %s", i.Agent,
					i.Image.GetVersion(), q.Versions)
			}
		}
	}
	return nil
}

func works(q *imagev1.Requirement, have string) bool {
	return q.GetVersions() == "" || version.In(have, []string{q.Versions})
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
