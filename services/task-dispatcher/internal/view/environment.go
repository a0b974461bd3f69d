package view

import (
	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// applyEnvironment keeps what the documents of an environment's servers say about drift. A fact that changes it changes
// all of them: it scans all servers, but rarely.
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
		return true
	}
	next := &dispatcherv1.EnvironmentRecord{Drift: have.GetDrift(), DriftBraked: have.GetDriftBraked()}
	switch b := f.Body.(type) {
	case *environmentv1.Created:
		next.Drift = b.GetEnvironment().GetDrift()
	case *environmentv1.Changed:
		next.Drift = b.GetEnvironment().GetDrift()
	case *environmentv1.DriftBraked:
		next.DriftBraked = true
	case *environmentv1.DriftReleased:
		next.DriftBraked = false
	}
	v.settings.Put(f.Key, next, f.Sequence)
	if known && proto.Equal(have, next) {
		return true
	}
	for id, s := range v.servers.All() {
		if s.Environment == f.Key && s.Life != serverv1.Life_LIFE_DEAD {
			v.documents.changed(id, f)
		}
	}
	return true
}
