package rolling

import (
	"fmt"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// What was asked for later wins: a rollout changes no agent of which a person, or a rollout that was planned after it,
// asked for something else since its plan.

// keeps returns why a rollout makes none of the changes of a step of a target, or nil: something else was asked for
// later of an agent that this step or a later one changes.
func (run Run) keeps(r Reader, t *rolloutv1.Target, step uint32) *apiv1.Refusal {
	first := map[string]bool{} // by agent: one that goes by way of other versions has several changes
	for n, c := range t.Changes {
		if rollout.StepOf(c) < step || n < len(t.UndoIntentIds) || first[c.Agent] {
			continue
		}
		first[c.Agent] = true
		if why := run.askedLater(r, t, c); why != nil {
			return why
		}
	}
	return nil
}

// keepsAlone is the same for one change of an undo whose other changes are made: they take back what broke. The
// undo of an intent looks for that itself.
func (run Run) keepsAlone(r Reader, t *rolloutv1.Target, n int) *apiv1.Refusal {
	if n >= len(t.UndoIntentIds) || t.UndoIntentIds[n] != "" {
		return nil
	}
	why := run.askedLater(r, t, t.Changes[n])
	if why != nil {
		why.Code = code.ChangedSince
	}
	return why
}

// askedLater returns what was asked for of an agent after the rollout was planned, where that is not what the
// rollout's change brings; nil for nothing. What the rollout itself and defaults asked for does not count, nor does an
// intent that the view no longer keeps.
func (run Run) askedLater(r Reader, t *rolloutv1.Target, c *rolloutv1.Change) *apiv1.Refusal {
	i, ok := r.Instance(t.ServerId, c.Agent)
	switch {
	case c.Repair || brought(i, c):
		return nil
	case !ok && c.From != nil:
		return keptFor(t, c, "the agent was removed since the rollout was planned")
	case !ok || slices.Contains(t.IntentIds, i.IntentId):
		return nil
	}
	in, known := r.Intent(i.IntentId)
	switch {
	case !known || r.Sequence(ledger.Intent, in.Id) <= run.Rollout.PlannedSequence, !run.later(r, in.GetIntent()):
		return nil
	case in.GetIntent().GetUndo() != nil && asPlanned(i, c):
		return nil // what was asked for later was undone
	case t.Because == late && i.Before.GetImage() == nil:
		return nil // the agent came with its server
	}
	return keptFor(t, c, fmt.Sprintf("intent %s of %s asked for something else since the rollout was planned",
		ident.Short(in.Id), in.Actor))
}

// later reports whether an intent is of a person, or of a rollout that was planned after this one.
func (run Run) later(r Reader, in *intentv1.Intent) bool {
	if in.GetSource() == nil {
		return true
	}
	other, _ := r.Rollout(in.Source.RolloutId)
	return other.GetPlannedSequence() > run.Rollout.PlannedSequence
}

func keptFor(t *rolloutv1.Target, c *rolloutv1.Change, why string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.AskedLater, Component: ledger.Registry, Message: c.Agent + ": " + why,
		Try: "garrison instance show " + t.ServerId + " " + c.Agent,
	}
}

// brought reports whether what a change brings is wanted of an instance already.
func brought(i *instancev1.Instance, c *rolloutv1.Change) bool {
	if c.To == nil || i.GetWanted() == nil {
		return c.To == nil && i.GetWanted() == nil
	}
	configured := c.ToConfiguration == "" || c.ToConfiguration == digest(i.Configuration)
	return instance.SameImage(i.Wanted, c.To) && configured
}

// asPlanned reports whether what a change was planned to replace is wanted of an instance.
func asPlanned(i *instancev1.Instance, c *rolloutv1.Change) bool {
	if c.From == nil || i.GetWanted() == nil {
		return c.From == nil && i.GetWanted() == nil
	}
	return instance.SameImage(i.Wanted, c.From) && digest(i.Configuration) == c.FromConfiguration
}

// IsBack reports whether a server runs, in good health, what each change of a rollout was planned to replace. Where an
// agent came anew, it is gone.
func IsBack(r Reader, t *rolloutv1.Target) bool {
	return !slices.ContainsFunc(t.Changes, func(c *rolloutv1.Change) bool {
		i, _ := r.Instance(t.ServerId, c.Agent)
		if c.From == nil {
			return i.GetObserved() != nil
		}
		return !asPlanned(i, c) || !instance.SameImage(i.Observed, c.From) || instance.Changing(i) ||
			i.Health != instancev1.Health_HEALTH_GOOD
	})
}
