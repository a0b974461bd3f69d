// Package opening decides which tasks are opened, and with what content.
//
// It is pure. Guarantees:
//
//  1. The id of a task is computed from what it is about: a task that is opened twice has the same id,
//     and the second fact fits nowhere.
//  2. A generation of an instance has one task at a time. Another attempt follows only after an end
//     that is retried, once the server is online again.
package opening

import (
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ident"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// InstanceID computes the id of the task that brings an instance to a generation. From the second
// epoch of the server's history on, the epoch is part of it: a generation that the ledger lost
// repeats, and is another change then.
func InstanceID(instance string, generation uint64, attempt uint32, epoch uint64) string {
	parts := []string{"task", instance, strconv.FormatUint(generation, 10), strconv.FormatUint(uint64(attempt), 10)}
	if epoch > 1 {
		parts = append(parts, "epoch", strconv.FormatUint(epoch, 10))
	}
	return ident.From(parts...)
}

// RefreshID computes the id of the task that an intent to refresh opens on a server.
func RefreshID(intent, server string) string { return ident.From("task", "refresh", intent, server) }

// Due returns the attempt with which a task must be opened for an instance, 0 when none must. A
// generation gets one task; when that ended in a way that is retried, it gets another one once the
// server is online again.
func Due(i *dispatcherv1.InstanceRecord, s *dispatcherv1.ServerRecord) uint32 {
	switch s.GetLife() {
	case serverv1.Life_LIFE_ALIVE:
	case serverv1.Life_LIFE_DYING:
		if !i.GetUnwanted() {
			return 0 // nothing is installed on a dying server
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

// Retried reports whether a task that ended in a state is retried when its server is online again:
// an expired one, which does not say in what state it left the server, and a failed removal,
// because an unwanted instance must go in the end.
func Retried(s taskv1.State, verb taskv1.Verb) bool {
	return s == taskv1.State_STATE_EXPIRED || (s == taskv1.State_STATE_FAILED && verb == taskv1.Verb_VERB_REMOVE)
}

// ForInstance returns the fact that opens the task of an instance, and the task's id, in an epoch of
// its server's history. The caller sets the deadline. From is what is placed now; a change under way
// may still be rolled back, so no later decision may rest on it.
func ForInstance(i *dispatcherv1.InstanceRecord, attempt uint32, epoch uint64) (id string, q *taskv1.Queued) {
	from, configuration := From(i, i.Generation)
	q = &taskv1.Queued{
		ServerId: i.ServerId, Agent: i.Agent, InstanceId: i.InstanceId, Generation: i.Generation, Attempt: attempt,
		From: from, IntentId: i.IntentId,
	}
	switch {
	case i.Unwanted && i.Release:
		q.Verb = taskv1.Verb_VERB_RELEASE
	case i.Unwanted:
		q.Verb = taskv1.Verb_VERB_REMOVE
	case q.From == nil && i.AdoptCandidate != "":
		q.Verb, q.To = taskv1.Verb_VERB_ADOPT, i.Wanted
	case q.From == nil:
		q.Verb, q.To = taskv1.Verb_VERB_INSTALL, i.Wanted
	case q.From.Id == i.Wanted.GetId() && i.Again:
		q.Verb, q.To = taskv1.Verb_VERB_RESTART, i.Wanted
	case q.From.Id == i.Wanted.GetId() && (i.Reconfigured || !proto.Equal(configuration, i.Configuration)):
		q.Verb, q.To = taskv1.Verb_VERB_CONFIGURE, i.Wanted
	default:
		q.Verb, q.To = taskv1.Verb_VERB_UPGRADE, i.Wanted
	}
	return InstanceID(i.InstanceId, i.Generation, attempt, epoch), q
}

// From returns the image and the configuration that a rollback of a change to a generation restores:
// those placed now, unless an earlier attempt at the same generation left that open.
func From(i *dispatcherv1.InstanceRecord, generation uint64) (*imagev1.Ref, *instancev1.Configuration) {
	if i.Unsettled && i.PlacedGeneration == generation {
		return i.Before, i.BeforeConfiguration
	}
	return i.Placed, i.PlacedConfiguration
}

// ForRefresh returns the fact that opens a refresh task on a server, and the task's id.
func ForRefresh(intent, server string, r *dispatcherv1.RefreshRecord) (id string, q *taskv1.Queued) {
	return RefreshID(intent, server), &taskv1.Queued{
		Verb: taskv1.Verb_VERB_REFRESH, ServerId: server, Generation: r.GetSequence(), Attempt: 1, IntentId: intent,
		Scan: r.GetScan(), PurgeKept: r.GetPurgeKept(), Ahead: r.GetAhead(),
	}
}
