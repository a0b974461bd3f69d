package instance

import (
	"bytes"
	"cmp"
	"maps"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Apply folds a fact into an instance's record, which is nil for an absent one, and returns the record
// after it; nil means that the instance is gone. Apply may change the record in place. It
// returns false, and the record unchanged, for a fact that does not fit.
func Apply(i *instancev1.Instance, f ledger.Fact) (*instancev1.Instance, bool) {
	if !Fits(i.GetId(), i.GetGeneration(), f.Body) {
		return i, false
	}
	switch b := f.Body.(type) {
	case *instancev1.Wanted:
		return want(i, f, b), true
	case *instancev1.Unwanted:
		return unwant(i, f, b), true
	case *instancev1.Observed:
		if Outdated(i, b) {
			return i, false
		}
		recordObserved(i, f.At, b)
		settle(i, f.At, b.Reason)
		return i, true
	case *instancev1.Adopted:
		i.Adoption, i.Proven = b.Adoption, nil
		return i, true
	}
	return nil, true // gone
}

func want(i *instancev1.Instance, f ledger.Fact, b *instancev1.Wanted) *instancev1.Instance {
	repeated := restarted(i, b)
	if i == nil {
		i = empty(f.Key, b.InstanceId)
		i.Before = &instancev1.Before{}
	} else {
		remember(i)
		i.Before = before(i, b.Configuration)
	}
	reason := reasonBefore(i, b.RevertedIntentId)
	i.Wanted, i.Generation, i.IntentId, i.Restarted = b.Image, b.Generation, b.IntentId, repeated
	recordOwn(i, f, b.Configuration)
	i.Configuration, i.AdoptCandidate = b.Configuration, b.AdoptCandidate
	i.Origin = cmp.Or(b.Origin, i.Origin)
	awaitTask(i, b.RevertedIntentId)
	settle(i, f.At, reason)
	return i
}

// restarted returns the change that is only repeated when an image is wanted again; nil when something changes.
func restarted(i *instancev1.Instance, b *instancev1.Wanted) *instancev1.Restarted {
	switch {
	case i == nil || !b.Again || !SameImage(i.Wanted, b.Image) || !SameConfiguration(i.Configuration, b.Configuration):
		return nil
	case i.Restarted != nil:
		return i.Restarted
	}
	return &instancev1.Restarted{IntentId: i.IntentId, Before: i.Before}
}

func unwant(i *instancev1.Instance, f ledger.Fact, b *instancev1.Unwanted) *instancev1.Instance {
	remember(i)
	i.Before = before(i, nil)
	reason := reasonBefore(i, b.RevertedIntentId)
	i.Wanted, i.Generation, i.IntentId, i.Restarted = nil, b.Generation, b.IntentId, nil
	recordOwn(i, f, nil)
	i.Configuration = nil // an intent that wants it again brings its own
	awaitTask(i, b.RevertedIntentId)
	settle(i, f.At, reason)
	return i
}

// Overtaken reports whether a fact opens and assigns a task for what is no longer wanted: its instance, which has that
// id and generation, was decided anew before the fact was stored, or is gone. Such a fact changes nothing, and the task
// does not exist. A task that was queued before ends by a fact instead.
func Overtaken(body proto.Message, id string, generation uint64) bool {
	a, ok := body.(*taskv1.Assigned)
	q := a.GetOpened()
	return ok && q.GetInstanceId() != "" && (q.InstanceId != id || q.Generation != generation)
}

// ApplyTask folds the state of a task into the instance that it changes. A task of another
// instance or generation changes nothing.
//
// It never changes what was observed; see ApplyShown.
func ApplyTask(i *instancev1.Instance, t *taskv1.Task, at time.Time) {
	if i == nil || t.InstanceId != i.Id {
		return
	}
	if t.Generation != i.TaskGeneration {
		recordLastTask(i, t)
		return
	}
	recordBegun(i, t)
	i.TaskId, i.TaskState, i.TaskCode, i.TaskWaits = t.Id, t.State, "", waits(t)
	if EndedBadly(t.State) {
		i.TaskCode = t.GetOutcome().GetCode()
	}
	switch t.State {
	case taskv1.State_STATE_SUCCEEDED:
		i.ChangedAt = timestamppb.New(at)
		if SameImage(i.Failed, t.To) {
			i.Failed, i.FailedConfigurationDigest = nil, nil
		}
		recordAdoption(i, t)
	case taskv1.State_STATE_UNDONE, taskv1.State_STATE_FAILED:
		recordFailed(i, t)
	}
	settle(i, at, reasonOf(t))
}

// waits returns why a task that is under way waits on its server; "" when it does not.
func waits(t *taskv1.Task) string {
	if !open(t.State) || t.GetDeferral() == nil || t.GetDeferral().GetResumedAt() != nil {
		return ""
	}
	return t.GetDeferral().GetReason()
}

// recordAdoption keeps what a task proved of the process that it adopted, until the fact adopted says it. An upgrade
// replaces the process.
func recordAdoption(i *instancev1.Instance, t *taskv1.Task) {
	switch t.Verb {
	case taskv1.Verb_VERB_ADOPT:
		i.Proven, i.AdoptCandidate = t.GetOutcome().GetAdoption(), ""
	case taskv1.Verb_VERB_UPGRADE, taskv1.Verb_VERB_RESTART:
		i.Adoption, i.Proven = nil, nil
	}
}

// reasonOf returns why the last change of an instance ended badly; empty for a task that did not.
func reasonOf(t *taskv1.Task) string {
	what := ""
	switch t.State {
	case taskv1.State_STATE_FAILED:
		what = "the last change failed"
	case taskv1.State_STATE_UNDONE:
		what = "the last change was undone"
	case taskv1.State_STATE_CANCELLED:
		what = "the last change was cancelled"
	case taskv1.State_STATE_EXPIRED:
		return "the last change was not done before its deadline"
	default:
		return ""
	}
	for _, part := range []string{t.GetOutcome().GetCode(), t.Reason} {
		if part != "" {
			what += ": " + part
		}
	}
	return what
}

// recordFailed remembers what failed by a fault of its own. A configuration of the image that runs does not push out
// another image that failed. An image that was only placed was still being tried.
func recordFailed(i *instancev1.Instance, t *taskv1.Task) {
	ran := SameImage(t.From, t.To) && SameImage(i.Observed, t.To)
	if t.To == nil || !ownFault(t.State, i.TaskCode) || ran && i.Failed != nil && !SameImage(i.Failed, t.To) {
		return
	}
	i.Failed, i.FailedConfigurationDigest = t.To, i.Configuration.GetDigest()
}

// ownFault reports whether a change ended by what it brought, rather than for the sake of its server or before it
// touched the agent.
func ownFault(s taskv1.State, why string) bool {
	switch s {
	case taskv1.State_STATE_UNDONE:
		return code.EndsByBuild(why) || why == code.TimedOut || why == code.SetupFailed
	case taskv1.State_STATE_FAILED:
		return code.EndsByBuild(why)
	}
	return false
}

// before returns what an instance is before what is wanted of it changes to a configuration.
func before(i *instancev1.Instance, next *instancev1.Configuration) *instancev1.Before {
	b := &instancev1.Before{}
	if i.Wanted == nil {
		return b // it was being removed
	}
	if b.Image = Placed(i); b.Image == nil {
		return b
	}
	if b.Same = SameConfiguration(i.Configuration, next); !b.Same {
		b.Configuration = i.Configuration
	} else if ran := i.GetBefore().GetConfiguration(); ran != nil && runs(i, ran) {
		b.Configuration = ran // what is wanted failed, and is wanted again
	}
	return b
}

// runs reports whether an instance was observed with a configuration rather than with the one that is wanted.
func runs(i *instancev1.Instance, c *instancev1.Configuration) bool {
	return bytes.Equal(i.ObservedConfigurationDigest, c.GetDigest()) && !SameConfiguration(i.Configuration, c)
}

// recordObserved records an observation. An executor that reports no generation shows the present
// one once its task succeeded.
func recordObserved(i *instancev1.Instance, at time.Time, b *instancev1.Observed) {
	i.Observed, i.Health, i.ObservedAt = b.Image, b.Health, timestamppb.New(at)
	i.ObservedConfigurationDigest, i.ObservedReason, i.ObservedCode = b.ConfigurationDigest, b.Reason, b.Code
	i.ObservedNextAt, i.Kept = b.NextAt, b.Kept
	i.ObservedReport, i.ReportedAt = b.Report, b.ReportedAt
	shown := b.Generation
	if shown == 0 && b.Image != nil && i.TaskState == taskv1.State_STATE_SUCCEEDED {
		shown = i.Generation
	}
	i.ObservedGeneration = max(i.ObservedGeneration, min(shown, i.Generation))
}

// settle derives the state. The time changes only with the state.
func settle(i *instancev1.Instance, at time.Time, reason string) {
	if s := Derive(i); s != i.State {
		i.State, i.Since = s, timestamppb.New(at)
	}
	switch {
	case i.State == instancev1.State_STATE_CONVERGED:
		i.Reason = ""
	case reason != "":
		i.Reason = reason
	case EndedBadly(i.TaskState): // the reason of a failed change stays until a newer one
	case i.State == instancev1.State_STATE_FAILED, i.State == instancev1.State_STATE_DRIFTED:
		i.Reason = i.ObservedReason // what was observed may have come before the end of the change
	default:
		i.Reason = ""
	}
}

// empty returns a record with nothing but its identity.
func empty(key, id string) *instancev1.Instance {
	server, agent, _ := strings.Cut(key, ".")
	return &instancev1.Instance{Id: id, ServerId: server, Agent: agent}
}

// recordOwn records a new revision of the instance's own values where a configuration changes them.
func recordOwn(i *instancev1.Instance, f ledger.Fact, next *instancev1.Configuration) {
	if maps.Equal(i.GetConfiguration().GetOwn(), next.GetOwn()) {
		return
	}
	i.OwnChange = &instancev1.OwnChange{Revision: f.Sequence, ChangedBy: f.Actor, ChangedAt: timestamppb.New(f.At)}
}
