package server

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// The codes with which an executor says that it did not take a document that it read.
const (
	CodeLedgerBehind  = "LEDGER_BEHIND"  // the ledger lost the document that was applied last
	CodePlaceUnproven = "PLACE_UNPROVEN" // the lineage does not reach back to the document that was applied last
)

// highestEpoch bounds what a server may say of itself, so that one more is always possible.
const highestEpoch = uint64(1) << 62

// Epoch returns an epoch as it counts: 0, in an old record, is the first.
func Epoch(said uint64) uint64 { return max(said, 1) }

// Doubt is why a server may have lost part of its history.
type Doubt uint8

// The doubts.
const (
	NoDoubt  Doubt = iota
	Beyond         // its epoch, or its generation, is beyond what the view holds
	Unproven       // its executor did not take a document, and the fact of its last one decides
)

// DoubtOf returns the doubt that a beat raises about a server's history. end is the last sequence that the view
// holds. A view that lags raises doubts that Settle dispels.
func DoubtOf(s *serverv1.Server, heard Heard, end uint64) Doubt {
	own, said := Epoch(s.GetEpoch()), Epoch(heard.Place.GetEpoch())
	switch {
	case !Managed(s) || s.Ahead != nil || heard.At.IsZero() || said < own:
		return NoDoubt
	case said > own || heard.Place.GetGeneration() > end:
		return Beyond
	case heard.Code == CodePlaceUnproven && proto.Equal(s.Confirmed, heard.Place):
		return NoDoubt // the document that says so is on its way
	case heard.Code == CodeLedgerBehind || heard.Code == CodePlaceUnproven:
		return Unproven
	}
	return NoDoubt
}

// Settle returns the fact that settles a doubt: the server is ahead, or the ledger confirms its place, or nil when
// nothing is to be recorded. end is the proven end of the ledger; mark is the mark of its fact at the generation of
// heard's place, or 0 where there is none.
func Settle(s *serverv1.Server, heard Heard, end, mark uint64) proto.Message {
	place := heard.Place
	lost := &serverv1.Ahead{Place: place, LedgerEnd: end, Code: heard.Code}
	switch doubt := DoubtOf(s, heard, end); {
	case doubt == NoDoubt:
		return nil
	case doubt == Beyond, place.GetMark() == 0 && heard.Code == CodeLedgerBehind,
		place.GetMark() != 0 && place.GetMark() != mark:
		return lost
	case heard.Code == CodePlaceUnproven:
		return &serverv1.PlaceConfirmed{Place: place}
	}
	return nil // the ledger has it: an older document is read until the newer one is written again
}

// NextEpoch returns the epoch that accepts the loss of a server that is ahead: above the ledger's and its own.
func NextEpoch(s *serverv1.Server) uint64 {
	return min(max(Epoch(s.GetEpoch()), s.GetAhead().GetPlace().GetEpoch()), highestEpoch) + 1
}

// recordHistory folds a fact about what the ledger and the server know of each other.
func recordHistory(s *serverv1.Server, f ledger.Fact) bool {
	switch b := f.Body.(type) {
	case *serverv1.Ahead:
		s.Ahead = &serverv1.ServerAhead{Place: b.Place, LedgerEnd: b.LedgerEnd, Since: timestamppb.New(f.At)}
	case *serverv1.EpochRaised:
		s.Epoch, s.Ahead, s.Confirmed = b.Epoch, nil, nil
	case *serverv1.PlaceConfirmed:
		s.Confirmed = b.Place
	case *serverv1.ConditionChanged:
		s.Condition = &serverv1.ServerCondition{State: b.State, Code: b.Code, Reason: b.Reason, Since: timestamppb.New(f.At)}
	case *serverv1.Duplicated:
		s.Duplicate = &serverv1.ServerDuplicate{Sightings: b.Sightings, Since: timestamppb.New(f.At)}
	case *serverv1.DuplicateEnded:
		s.Duplicate = nil
	default:
		return false
	}
	return true
}
