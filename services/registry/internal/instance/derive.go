package instance

import (
	"bytes"
	"maps"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Derive gives an instance's state:
//
//	wanted | last task       | found              | state
//	-------|-----------------|--------------------|-----------
//	no     | ended badly     | anything           | failed
//	no     | otherwise       | anything           | removing
//	yes    | anything        | the wanted, good   | converged
//	yes    | ended badly     | otherwise          | failed
//	yes    | open or none    | otherwise          | pending
//	yes    | succeeded       | the wanted, bad    | failed
//	yes    | succeeded       | something else     | drifted
//
// The wanted is the image with the configuration.
func Derive(i *instancev1.Instance) instancev1.State {
	switch found := SameImage(i.Wanted, i.Observed) && bytes.Equal(i.Configuration.GetDigest(), i.ObservedConfigurationDigest); {
	case i.Wanted == nil && badEnd(i.TaskState):
		return instancev1.State_STATE_FAILED
	case i.Wanted == nil:
		return instancev1.State_STATE_REMOVING
	case found && i.Health == instancev1.Health_HEALTH_GOOD:
		return instancev1.State_STATE_CONVERGED
	case badEnd(i.TaskState):
		return instancev1.State_STATE_FAILED
	case i.TaskState != taskv1.State_STATE_SUCCEEDED:
		return instancev1.State_STATE_PENDING
	case found:
		return instancev1.State_STATE_FAILED
	}
	return instancev1.State_STATE_DRIFTED
}

func badEnd(s taskv1.State) bool {
	switch s {
	case taskv1.State_STATE_FAILED, taskv1.State_STATE_UNDONE, taskv1.State_STATE_CANCELLED, taskv1.State_STATE_EXPIRED:
		return true
	}
	return false
}

// SameImage says whether two references mean the same content. A digest that is not known is not compared.
func SameImage(a, b *imagev1.Ref) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Id == b.Id && (len(a.Digest) == 0 || len(b.Digest) == 0 || bytes.Equal(a.Digest, b.Digest))
}

// Placed returns the image that an instance keeps as long as no intent moves it: the one on
// its way while a task may still bring it, otherwise the one that was found. Nil means that
// nothing is there, and nothing is on its way.
func Placed(i *instancev1.Instance) *imagev1.Ref {
	switch {
	case i.GetTaskState() != taskv1.State_STATE_SUCCEEDED && !badEnd(i.GetTaskState()):
		return i.GetWanted()
	case i.GetObserved() != nil:
		return i.Observed
	case badEnd(i.GetTaskState()):
		return nil
	}
	return i.GetWanted() // it was proven, and is missed since
}

// SameConfiguration reports whether two configurations are the same. An instance's own
// values count even where they change nothing now: they win over what changes later.
func SameConfiguration(a, b *instancev1.Configuration) bool {
	return bytes.Equal(a.GetDigest(), b.GetDigest()) && maps.Equal(a.GetOwn(), b.GetOwn())
}

// Removed says that the instance is not wanted, and that its removal is done and proven: it may be gone.
func Removed(i *instancev1.Instance) bool {
	return i.Wanted == nil && i.TaskState == taskv1.State_STATE_SUCCEEDED
}
