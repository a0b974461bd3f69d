// Package instance is the life of the noun instance: an agent that is wanted on a server at an
// image. It holds the facts that move an instance, the fold of those facts into a record, and the
// state that follows from the record. The registry writes the noun.
//
//	next, fit := instance.Apply(record, fact)
//
// Guarantees:
//
//  1. Derive is the only function that decides a state, from what is wanted, what was observed
//     and where the last task of the present generation is.
//  2. Apply, ApplyTask and ApplyShown change nothing when a fact does not fit. What was observed comes from
//     the server alone, in the fact observed or in what it found once a task had succeeded.
//  3. An instance remembers what it was before the last intent changed it, and the image that
//     failed last on it.
package instance

import (
	"bytes"
	"cmp"
	"maps"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Existence is whether an instance exists. Where its change is, is derived; see Derive.
type Existence string

// An instance is Absent before it is wanted, and again when it is gone.
const (
	Absent  Existence = "absent"
	Present Existence = "present"
)

// Life lists which facts can happen in which state, and the state that follows. Fits adds the
// conditions on id and generation.
var Life = fsm.Table[Existence, string]{
	Absent:  {"wanted": Present},
	Present: {"wanted": Present, "unwanted": Present, "observed": Present, "adopted": Present, "gone": Absent},
}

// Fits reports whether the body of a fact fits an instance of that id and generation; an empty id
// stands for an absent instance. A fact about another instance on the same key does not fit, nor
// does one that wants an old generation.
func Fits(id string, generation uint64, body proto.Message) bool {
	switch b := body.(type) {
	case *instancev1.Wanted:
		if id == "" {
			return b.Generation > 0 && b.InstanceId != ""
		}
		return b.InstanceId == id && b.Generation > generation
	case *instancev1.Unwanted:
		return id != "" && b.InstanceId == id && b.Generation > generation
	case *instancev1.Observed:
		return id != "" && b.InstanceId == id
	case *instancev1.Gone:
		return id != "" && b.InstanceId == id
	case *instancev1.Adopted:
		return id != "" && b.InstanceId == id
	}
	return false
}

// Derive returns an instance's state:
//
//	wanted | last task       | listed                  | state
//	-------|-----------------|-------------------------|-----------
//	no     | ended badly     | anything                | failed
//	no     | otherwise       | anything                | removing
//	yes    | ended           | the wanted, good        | converged
//	yes    | ended badly     | otherwise               | failed
//	yes    | open or none    | the wanted, good, shown | converged
//	yes    | open            | otherwise               | pending
//	yes    | succeeded, none | not shown               | pending
//	yes    | succeeded, none | the wanted, bad         | failed
//	yes    | succeeded, none | something else          | drifted
//
// The wanted is the image with the configuration. Shown means that a report of the server's
// agents, which is a list, contained the present generation. The end of a task and the list travel
// apart, and either may come first.
func Derive(i *instancev1.Instance) instancev1.State {
	found := brought(i)
	good := found && i.Health == instancev1.Health_HEALTH_GOOD
	switch bad := EndedBadly(i.TaskState); {
	case i.Wanted == nil && bad:
		return instancev1.State_STATE_FAILED
	case i.Wanted == nil:
		return instancev1.State_STATE_REMOVING
	case good && (Shown(i) || bad || i.TaskState == taskv1.State_STATE_SUCCEEDED):
		return instancev1.State_STATE_CONVERGED
	case bad:
		return instancev1.State_STATE_FAILED
	case open(i.TaskState) || !Shown(i):
		return instancev1.State_STATE_PENDING
	case found:
		return instancev1.State_STATE_FAILED
	}
	return instancev1.State_STATE_DRIFTED
}

// brought reports whether the wanted image was observed with the wanted configuration.
func brought(i *instancev1.Instance) bool {
	return SameImage(i.Wanted, i.Observed) && bytes.Equal(i.Configuration.GetDigest(), i.ObservedConfigurationDigest)
}

// Shown reports whether a list contained the generation that is wanted.
func Shown(i *instancev1.Instance) bool {
	return i.GetObservedGeneration() >= cmp.Or(i.GetTaskGeneration(), i.GetGeneration())
}

func open(s taskv1.State) bool {
	switch s {
	case taskv1.State_STATE_QUEUED,
		taskv1.State_STATE_ASSIGNED,
		taskv1.State_STATE_RUNNING,
		taskv1.State_STATE_SUPERSEDED:
		return true
	}
	return false
}

// EndedBadly reports whether a task in this state ended without having changed what it was to change.
func EndedBadly(s taskv1.State) bool {
	switch s {
	case taskv1.State_STATE_FAILED, taskv1.State_STATE_UNDONE, taskv1.State_STATE_CANCELLED, taskv1.State_STATE_EXPIRED:
		return true
	}
	return false
}

// FailedThere reports whether an image with a configuration, by its digest, failed on the server and is not there. An
// image that failed counts with every configuration; while it is wanted, which is until the server went back, another
// configuration may be tried. Of the image that runs, only the configuration failed.
func FailedThere(i *instancev1.Instance, image *imagev1.Ref, configuration []byte) bool {
	if image == nil || !SameImage(i.GetFailed(), image) {
		return false
	}
	same := bytes.Equal(i.GetFailedConfigurationDigest(), configuration)
	if SameImage(i.GetObserved(), image) {
		return same && !bytes.Equal(i.GetObservedConfigurationDigest(), configuration)
	}
	return same || !SameImage(i.GetWanted(), image)
}

// WantedFailed reports whether what is wanted failed on the server and is not there: the last change to it ended by
// what it brought.
func WantedFailed(i *instancev1.Instance) bool {
	if i.GetWanted() == nil || SameImage(i.Wanted, i.Observed) &&
		bytes.Equal(i.Configuration.GetDigest(), i.ObservedConfigurationDigest) {
		return false
	}
	return ownFault(i.TaskState, i.TaskCode)
}

// SameImage reports whether two references mean the same content. A digest that is not known is not compared.
func SameImage(a, b *imagev1.Ref) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Id == b.Id && (len(a.Digest) == 0 || len(b.Digest) == 0 || bytes.Equal(a.Digest, b.Digest))
}

// Placed returns the image that an instance keeps as long as no intent changes it: the wanted one
// while a task may still bring it, otherwise the observed one. Nil means that no image is there or
// on its way.
func Placed(i *instancev1.Instance) *imagev1.Ref {
	switch {
	case !EndedBadly(i.GetTaskState()) && (i.GetTaskState() != taskv1.State_STATE_SUCCEEDED || !Shown(i)):
		return i.GetWanted()
	case i.GetObserved() != nil:
		return i.Observed
	case EndedBadly(i.GetTaskState()):
		return nil
	}
	return i.GetWanted() // the task succeeded, and the image has disappeared since
}

// Changing reports whether a task may still bring another image or configuration than was observed.
func Changing(i *instancev1.Instance) bool {
	return i.GetState() == instancev1.State_STATE_PENDING && !brought(i)
}

// SameConfiguration reports whether two configurations are the same. An instance's own values
// count even when they change nothing now, because they win over later changes elsewhere.
func SameConfiguration(a, b *instancev1.Configuration) bool {
	return bytes.Equal(a.GetDigest(), b.GetDigest()) && maps.Equal(a.GetOwn(), b.GetOwn())
}

// Removed reports whether the instance is not wanted and its removal succeeded, so that the fact gone is due.
func Removed(i *instancev1.Instance) bool {
	return i.Wanted == nil && i.TaskState == taskv1.State_STATE_SUCCEEDED
}
