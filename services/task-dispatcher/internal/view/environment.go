package view

import (
	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// applyEnvironment keeps what the documents of an environment's servers say about drift, and how many of them must
// work. A fact that changes one of both concerns all of them: it scans all servers, but rarely.
func (v *View) applyEnvironment(f ledger.Fact) bool {
	have, known := v.settings.Get(f.Key)
	if known {
		v.settings.Touch(f.Key, f.Sequence)
	}
	if _, created := f.Body.(*environmentv1.Created); known == created {
		return false
	}
	if _, deleted := f.Body.(*environmentv1.Deleted); deleted {
		v.settings.Forget(f.Key)
		v.environmentChanged(f, false)
		return true
	}
	next := &dispatcherv1.EnvironmentRecord{
		Drift: have.GetDrift(), DriftBraked: have.GetDriftBraked(), Keep: have.GetKeep(),
		BusyLimit: have.GetBusyLimit(),
	}
	switch b := f.Body.(type) {
	case *environmentv1.Created:
		next = settingsOf(b.GetEnvironment(), false)
	case *environmentv1.Changed:
		next = settingsOf(b.GetEnvironment(), have.GetDriftBraked())
	case *environmentv1.DriftBraked:
		next.DriftBraked = true
	case *environmentv1.DriftReleased:
		next.DriftBraked = false
	}
	v.settings.Put(f.Key, next, f.Sequence)
	documents := !known || have.Drift != next.Drift || have.DriftBraked != next.DriftBraked ||
		!proto.Equal(have.BusyLimit, next.BusyLimit)
	if documents || !proto.Equal(have, next) {
		v.environmentChanged(f, documents)
	}
	return true
}

// settingsOf returns what the view keeps of an environment.
func settingsOf(e *environmentv1.Environment, braked bool) *dispatcherv1.EnvironmentRecord {
	return &dispatcherv1.EnvironmentRecord{
		Drift: e.GetDrift(), DriftBraked: braked, Keep: e.GetKeep(), BusyLimit: e.GetBusyLimit(),
	}
}

// environmentChanged counts the servers of an environment anew, and renews their documents where those changed.
func (v *View) environmentChanged(f ledger.Fact, documents bool) {
	for id, s := range v.servers.All() {
		if s.Environment != f.Key || s.Life == serverv1.Life_LIFE_DEAD {
			continue
		}
		if v.keeps.review(id); documents {
			v.documents.changed(id, f)
		}
	}
}
