package view

import (
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// lineageLength is how many generations of a server's document its lineage holds.
const lineageLength = 16

// documents keeps the generations of the servers' documents.
type documents struct {
	servers *fold.Table[*dispatcherv1.ServerRecord]
	notify  func(server string) // called for each server whose document may have changed
}

// applyHistory folds the facts about a server's history and about duplicates of it.
func (d *documents) applyHistory(f ledger.Fact, s *dispatcherv1.ServerRecord) {
	switch b := f.Body.(type) {
	case *serverv1.Ahead:
		s.Ahead = true
		d.notify(f.Key) // the stored document may be from the time that was lost
	case *serverv1.EpochRaised:
		s.Epoch, s.Ahead = b.Epoch, false
		s.LineageGenerations, s.LineageMarks, s.ConfirmedGeneration, s.ConfirmedMark = nil, nil, 0, 0
		d.changed(f.Key, f)
	case *serverv1.PlaceConfirmed:
		s.ConfirmedGeneration, s.ConfirmedMark = b.Place.GetGeneration(), b.Place.GetMark()
		d.changed(f.Key, f)
	case *serverv1.ConditionChanged:
		if b.Code == code.ImpossibleDocument {
			d.notify(f.Key) // the stored document is not one of a dispatcher
		}
	case *serverv1.Duplicated:
		s.Duplicated = true
	case *serverv1.DuplicateEnded:
		s.Duplicated = false
	}
}

// changed sets the generation of a server's document, if it has one, to the fact that changed
// it.
func (d *documents) changed(server string, f ledger.Fact) {
	s, ok := d.servers.Get(server)
	if !ok || s.DocumentGeneration == 0 {
		return
	}
	s.DocumentGeneration = f.Sequence
	if n := len(s.LineageGenerations); n == 0 || s.LineageGenerations[n-1] != f.Sequence {
		s.LineageGenerations = lastOf(s.LineageGenerations, f.Sequence)
		s.LineageMarks = lastOf(s.LineageMarks, ledger.Mark(f))
	}
	d.notify(server)
}

// lastOf appends a number and keeps the last lineageLength.
func lastOf(have []uint64, next uint64) []uint64 {
	if len(have) == lineageLength {
		copy(have, have[1:])
		have = have[:lineageLength-1]
	}
	return append(have, next)
}
