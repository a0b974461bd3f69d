package task

import (
	"strconv"

	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

// InstanceID computes the id of the task that brings an instance to a generation. The epoch of the server's history is
// part of it from the second on: a generation that the ledger lost comes again, and is another change then.
func InstanceID(instance string, generation uint64, attempt uint32, epoch uint64) string {
	parts := []string{"task", instance, strconv.FormatUint(generation, 10), strconv.FormatUint(uint64(attempt), 10)}
	if epoch > 1 {
		parts = append(parts, "epoch", strconv.FormatUint(epoch, 10))
	}
	return ident.From(parts...)
}

// RefreshID computes the id of the task that an intent to refresh opens on a server.
func RefreshID(intent, server string) string { return ident.From("task", "refresh", intent, server) }

// Due gives the attempt with which a task must be opened for an instance, 0 when none
// must. A generation gets one task; when that ended in a way that is tried again, it
// gets another once the server has come back.
func Due(i *dispatcherv1.InstanceRecord, s *dispatcherv1.ServerRecord) uint32 {
	switch s.GetLife() {
	case serverv1.Life_LIFE_ALIVE:
	case serverv1.Life_LIFE_DYING:
		if !i.GetUnwanted() {
			return 0 // nothing comes to a server that goes
		}
	default:
		return 0
	}
	switch {
	case i.GetGeneration() > i.GetTaskGeneration():
		return 1
	case i.GetExpiredSequence() > 0 && s.GetPresence() == serverv1.Presence_PRESENCE_ONLINE &&
		s.GetOnlineSequence() > i.GetExpiredSequence():
		return i.GetAttempt() + 1
	}
	return 0
}

// TriedAgain says whether a task that ended with a fact is tried again when its server
// comes back: one that expired, which does not say how the server was left, and a
// removal that failed, because what is not wanted must go in the end.
func TriedAgain(how Fact, verb taskv1.Verb) bool {
	return how == HasExpired || (how == HasFailed && verb == taskv1.Verb_VERB_REMOVE)
}

// ForInstance returns the fact that opens the task of an instance, and the task's id, in an epoch of its server's
// history. The deadline is the caller's. From is what is placed now, and a change under way may still be undone:
// nothing may be decided by it later.
func ForInstance(i *dispatcherv1.InstanceRecord, attempt uint32, epoch uint64) (id string, q *taskv1.Queued) {
	from, configuration := From(i, i.Generation)
	q = &taskv1.Queued{
		ServerId: i.ServerId, Agent: i.Agent, InstanceId: i.InstanceId, Generation: i.Generation, Attempt: attempt,
		From: from, IntentId: i.IntentId,
	}
	switch {
	case i.Unwanted:
		q.Verb = taskv1.Verb_VERB_REMOVE
	case q.From == nil:
		q.Verb, q.To = taskv1.Verb_VERB_INSTALL, i.Wanted
	case q.From.Id == i.Wanted.GetId() && (i.Reconfigured || !proto.Equal(configuration, i.Configuration)):
		q.Verb, q.To = taskv1.Verb_VERB_CONFIGURE, i.Wanted
	default:
		q.Verb, q.To = taskv1.Verb_VERB_UPGRADE, i.Wanted
	}
	return InstanceID(i.InstanceId, i.Generation, attempt, epoch), q
}

// From gives the image and the configuration to which a change to a generation goes back
// when it is undone: those placed now, unless an earlier try at the same generation left that open.
func From(i *dispatcherv1.InstanceRecord, generation uint64) (*imagev1.Ref, *instancev1.Configuration) {
	if i.Unsettled && i.PlacedGeneration == generation {
		return i.Before, i.BeforeConfiguration
	}
	return i.Placed, i.PlacedConfiguration
}

// ForRefresh gives the fact that opens a refresh task on a server, and the task's id.
func ForRefresh(intent, server string, accepted uint64) (id string, q *taskv1.Queued) {
	return RefreshID(intent, server), &taskv1.Queued{
		Verb: taskv1.Verb_VERB_REFRESH, ServerId: server, Generation: accepted, Attempt: 1, IntentId: intent,
	}
}
