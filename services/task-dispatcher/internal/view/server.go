package view

import (
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

func (v *View) applyServer(f ledger.Fact) bool {
	id := f.Key
	if b, ok := f.Body.(*serverv1.Invited); ok {
		return v.invited(f, b)
	}
	s, ok := v.servers.Get(id)
	if !ok {
		return false
	}
	v.servers.Touch(id, f.Sequence)
	if _, ok := f.Body.(*serverv1.Forgotten); ok {
		return v.forgotten(id, s)
	}
	if s.Life == serverv1.Life_LIFE_DEAD {
		return fitsTheDead(f)
	}
	fits := true
	v.reviewAwaited(id, func() { fits = v.changeServer(f, s) })
	if !fits {
		return false
	}
	v.reviewInstances(id)
	v.reviewTasks(id)
	return true
}

// fitsTheDead says whether a fact may follow the death of a server; what its executor
// says of its own end changes nothing here.
func fitsTheDead(f ledger.Fact) bool {
	switch f.Body.(type) {
	case *serverv1.Uninstalled, *serverv1.CleanUpFailed:
		return true
	}
	return false
}

func (v *View) invited(f ledger.Fact, b *serverv1.Invited) bool {
	if _, ok := v.servers.Get(f.Key); ok {
		v.servers.Touch(f.Key, f.Sequence)
		return false
	}
	invited := &dispatcherv1.ServerRecord{Cell: b.Cell, Labels: b.Labels, Life: serverv1.Life_LIFE_INVITED}
	v.reviewAwaited(f.Key, func() { v.servers.Put(f.Key, invited, f.Sequence) })
	return true
}

// changeServer changes the record of a server that is not dead.
func (v *View) changeServer(f ledger.Fact, s *dispatcherv1.ServerRecord) bool {
	switch b := f.Body.(type) {
	case *serverv1.Enrolled:
		if s.Life != serverv1.Life_LIFE_INVITED {
			return false
		}
		s.Life, s.Standing = serverv1.Life_LIFE_ALIVE, serverv1.Standing_STANDING_ENROLLED
		s.Epoch, s.DocumentGeneration = 1, f.Sequence // it has a document from now on
		v.documentChanged(f.Key, f)
	case *serverv1.Changed:
		s.Labels = b.Labels
		v.documentChanged(f.Key, f)
	case *serverv1.Online:
		s.Presence, s.OnlineSequence = serverv1.Presence_PRESENCE_ONLINE, f.Sequence
	case *serverv1.Offline:
		s.Presence = serverv1.Presence_PRESENCE_OFFLINE
	case *serverv1.Quarantined:
		s.Standing = serverv1.Standing_STANDING_QUARANTINED
	case *serverv1.Released:
		s.Standing = serverv1.Standing_STANDING_ENROLLED
	case *serverv1.Dying:
		s.Life = serverv1.Life_LIFE_DYING
		v.dropRefreshes(f.Key) // only removals are sent to it from now on
		v.documentChanged(f.Key, f)
	case *serverv1.Dead:
		s.Life, s.Tombstone = serverv1.Life_LIFE_DEAD, b.Tombstone
		s.Presence = serverv1.Presence_PRESENCE_UNSPECIFIED
		v.dropRefreshes(f.Key)
		v.documentChanged(f.Key, f)
	default:
		v.changeHistory(f, s)
	}
	return true
}

// forgotten drops a server. Its document, the tombstone, stays where it is.
func (v *View) forgotten(id string, s *dispatcherv1.ServerRecord) bool {
	if s.Life != serverv1.Life_LIFE_DEAD && s.Life != serverv1.Life_LIFE_INVITED {
		return false
	}
	v.reviewAwaited(id, func() { v.servers.Forget(id) })
	v.dropRefreshes(id)
	v.reviewInstances(id)
	v.reviewTasks(id)
	return true
}
