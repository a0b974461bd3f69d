package server

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// recordHistory folds a fact about the server's epoch, its executor's condition, a duplicate or a
// reinstall, and reports whether it was one.
func recordHistory(s *serverv1.Server, f ledger.Fact) bool {
	switch b := f.Body.(type) {
	case *serverv1.Ahead:
		s.Ahead = &serverv1.ServerAhead{Place: b.Place, LedgerEnd: b.LedgerEnd, Since: timestamppb.New(f.At)}
	case *serverv1.EpochRaised:
		s.Epoch, s.Ahead, s.Confirmed = b.Epoch, nil, nil
	case *serverv1.PlaceConfirmed:
		s.Confirmed = b.Place
	case *serverv1.ConditionChanged:
		s.Condition = &serverv1.ServerCondition{
			State: b.State, Code: b.Code, Reason: b.Reason, Since: timestamppb.New(f.At),
		}
	case *serverv1.Duplicated:
		s.Duplicate = &serverv1.ServerDuplicate{Sightings: b.Sightings, Since: timestamppb.New(f.At)}
	case *serverv1.DuplicateEnded:
		s.Duplicate = nil
	case *serverv1.Reinstalling:
		s.Reinstall = &serverv1.Reinstall{IntentId: b.IntentId, Actor: f.Actor, Since: timestamppb.New(f.At)}
	case *serverv1.Reinstalled:
		s.Reinstall, s.ReinstalledAt = nil, timestamppb.New(f.At)
	default:
		return false
	}
	return true
}
