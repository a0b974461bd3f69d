package instance

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Apply folds a fact into the instance's row, which may be nil, and returns the row after
// it; nil means that the instance is gone. It returns false, and the row as it was, when
// the fact does not fit.
func Apply(i *instancev1.Instance, f ledger.Fact) (*instancev1.Instance, bool) {
	switch b := f.Body.(type) {
	case *instancev1.Wanted:
		return want(i, f, b)
	case *instancev1.Unwanted:
		return unwant(i, f, b)
	case *instancev1.Observed:
		return observe(i, f, b)
	case *instancev1.Adopted:
		return adopt(i, f, b)
	case *instancev1.Gone:
		if i == nil || i.Id != b.InstanceId {
			return i, false
		}
		return nil, true
	}
	return i, false
}

func want(i *instancev1.Instance, f ledger.Fact, b *instancev1.Wanted) (*instancev1.Instance, bool) {
	switch {
	case i == nil && (b.Generation == 0 || b.InstanceId == ""):
		return i, false
	case i == nil:
		i = blank(f.Key, b.InstanceId)
		i.Before = &instancev1.Before{}
	case i.Id != b.InstanceId || b.Generation <= i.Generation:
		return i, false
	default:
		remember(i)
		i.Before = before(i, b.Configuration)
	}
	reason := reasonBefore(i, b.WithdrawnIntentId)
	i.Wanted, i.Generation, i.IntentId = b.Image, b.Generation, b.IntentId
	i.Configuration = b.Configuration
	decide(i, b.WithdrawnIntentId)
	settle(i, f.At, reason)
	return i, true
}

func unwant(i *instancev1.Instance, f ledger.Fact, b *instancev1.Unwanted) (*instancev1.Instance, bool) {
	if i == nil || i.Id != b.InstanceId || b.Generation <= i.Generation {
		return i, false
	}
	remember(i)
	i.Before = before(i, nil)
	reason := reasonBefore(i, b.WithdrawnIntentId)
	i.Wanted, i.Generation, i.IntentId = nil, b.Generation, b.IntentId
	i.Configuration = nil // whoever wants it again says anew how
	decide(i, b.WithdrawnIntentId)
	settle(i, f.At, reason)
	return i, true
}

func observe(i *instancev1.Instance, f ledger.Fact, b *instancev1.Observed) (*instancev1.Instance, bool) {
	if i == nil || i.Id != b.InstanceId {
		return i, false
	}
	see(i, f.At, b)
	settle(i, f.At, b.Reason)
	return i, true
}

func adopt(i *instancev1.Instance, f ledger.Fact, b *instancev1.Adopted) (*instancev1.Instance, bool) {
	if i != nil || b.InstanceId == "" || b.Image == nil {
		return i, false
	}
	i = blank(f.Key, b.InstanceId)
	i.Generation, i.TaskGeneration, i.Wanted, i.Begun = 1, 1, b.Image, true
	see(i, f.At, &instancev1.Observed{Image: b.Image, Health: instancev1.Health_HEALTH_GOOD, Generation: 1})
	settle(i, f.At, "")
	return i, true
}

// Note folds the state of a task into the instance that it changes. A task of another
// instance or generation changes nothing.
//
// It never touches what was observed: only a list of the server's agents says what is
// there, whatever became of the task.
func Note(i *instancev1.Instance, t *taskv1.Task, at time.Time) {
	if i == nil || t.InstanceId != i.Id {
		return
	}
	if t.Generation != i.TaskGeneration {
		noteLast(i, t)
		return
	}
	noteBegun(i, t.State)
	i.TaskId, i.TaskState = t.Id, t.State
	switch t.State {
	case taskv1.State_STATE_SUCCEEDED:
		if SameImage(i.Failed, t.To) {
			i.Failed = nil
		}
	case taskv1.State_STATE_UNDONE, taskv1.State_STATE_FAILED:
		noteFailed(i, t)
	}
	settle(i, at, t.Reason)
}

// noteFailed remembers the image that a task could not bring. A change of the configuration
// alone says nothing against the image: one whose image was placed when the task was queued,
// and that is listed. One that was only placed was still being tried.
func noteFailed(i *instancev1.Instance, t *taskv1.Task) {
	if t.To != nil && !(SameImage(t.From, t.To) && SameImage(i.Observed, t.To)) {
		i.Failed = t.To
	}
}

// before returns what an instance is before what is wanted of it changes to a configuration.
func before(i *instancev1.Instance, next *instancev1.Configuration) *instancev1.Before {
	b := &instancev1.Before{}
	if i.Wanted == nil {
		return b // it was leaving
	}
	if b.Image = Placed(i); b.Image == nil {
		return b
	}
	if b.Same = SameConfiguration(i.Configuration, next); !b.Same {
		b.Configuration = i.Configuration
	}
	return b
}

// see records what a list shows. An executor that does not say a generation shows the
// present one once its task succeeded.
func see(i *instancev1.Instance, at time.Time, b *instancev1.Observed) {
	i.Observed, i.Health, i.ObservedAt = b.Image, b.Health, timestamppb.New(at)
	i.ObservedConfigurationDigest, i.ObservedReason = b.ConfigurationDigest, b.Reason
	shown := b.Generation
	if shown == 0 && b.Image != nil && i.TaskState == taskv1.State_STATE_SUCCEEDED {
		shown = i.Generation
	}
	i.ObservedGeneration = max(i.ObservedGeneration, min(shown, i.Generation))
}

// settle derives the state. since moves only when the state does.
func settle(i *instancev1.Instance, at time.Time, reason string) {
	if s := Derive(i); s != i.State {
		i.State, i.Since = s, timestamppb.New(at)
	}
	if reason != "" || !badEnd(i.TaskState) {
		i.Reason = reason // why the last change failed stays until there is something newer to say
	}
	if i.State == instancev1.State_STATE_CONVERGED {
		i.Reason = ""
	}
}

func blank(key, id string) *instancev1.Instance {
	server, agent, _ := strings.Cut(key, ".")
	return &instancev1.Instance{Id: id, ServerId: server, Agent: agent}
}
