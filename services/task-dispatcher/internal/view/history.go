package view

import (
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// lineageLength is how many generations of a server's document its lineage holds.
const lineageLength = 16

// changeHistory changes what the dispatcher knows of a server's history, and who beats as it.
func (v *View) changeHistory(f ledger.Fact, s *dispatcherv1.ServerRecord) {
	switch b := f.Body.(type) {
	case *serverv1.Ahead:
		s.Ahead = true
		v.onDocument(f.Key) // a document of the time that was lost may be in its place
	case *serverv1.EpochRaised:
		s.Epoch, s.Ahead = b.Epoch, false
		s.LineageGenerations, s.LineageMarks, s.ConfirmedGeneration, s.ConfirmedMark = nil, nil, 0, 0
		v.documentChanged(f.Key, f)
	case *serverv1.PlaceConfirmed:
		s.ConfirmedGeneration, s.ConfirmedMark = b.Place.GetGeneration(), b.Place.GetMark()
		v.documentChanged(f.Key, f)
	case *serverv1.Duplicated:
		s.Duplicated = true
	case *serverv1.DuplicateEnded:
		s.Duplicated = false
	}
}

// documentChanged moves the generation of a server's document, if it has one, to the fact that changed it.
func (v *View) documentChanged(server string, f ledger.Fact) {
	s, ok := v.servers.Get(server)
	if !ok || s.DocumentGeneration == 0 {
		return
	}
	s.DocumentGeneration = f.Sequence
	if n := len(s.LineageGenerations); n == 0 || s.LineageGenerations[n-1] != f.Sequence {
		s.LineageGenerations = lastOf(s.LineageGenerations, f.Sequence)
		s.LineageMarks = lastOf(s.LineageMarks, ledger.Mark(f))
	}
	v.onDocument(server)
}

// lastOf adds a number behind the last ones.
func lastOf(have []uint64, next uint64) []uint64 {
	if len(have) == lineageLength {
		copy(have, have[1:])
		have = have[:lineageLength-1]
	}
	return append(have, next)
}
