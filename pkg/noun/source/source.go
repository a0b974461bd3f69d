// Package source is the life of the noun source: a place outside the catalog that images are imported from. The
// image-catalog writes the noun.
//
//	next, fit := source.Apply(record, fact)
//
// Guarantees:
//
//  1. A record exists from the time that a source is added until it is removed.
//  2. A source whose place or keys change keeps when it was last synchronized, so that an index from before that is
//     still refused.
package source

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = declared.Table{
	declared.Absent:  {"added": declared.Present},
	declared.Present: {"added": declared.Present, "synced": declared.Present, "removed": declared.Absent},
}

// Apply folds a fact into a source's record, which is nil for an unknown one, and returns the record after it; nil
// means that it is removed. It returns false, and the record unchanged, for a fact that does not fit.
func Apply(have *sourcev1.Source, f ledger.Fact) (*sourcev1.Source, bool) {
	if _, fit := declared.Next(Life, have != nil, f.Name()); !fit {
		return have, false
	}
	switch b := f.Body.(type) {
	case *sourcev1.Added:
		return &sourcev1.Source{
			Name: f.Key, Location: b.GetLocation(), Keys: b.GetKeys(), AddedAt: timestamppb.New(f.At), AddedBy: f.Actor,
			Last: have.GetLast(), SyncedAt: have.GetSyncedAt(),
		}, true
	case *sourcev1.Synced:
		return &sourcev1.Source{
			Name: have.Name, Location: have.Location, Keys: have.Keys, AddedAt: have.AddedAt, AddedBy: have.AddedBy,
			Last: b, SyncedAt: timestamppb.New(f.At),
		}, true
	}
	return nil, true
}
