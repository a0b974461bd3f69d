package view

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/noun/source"
	"github.com/garrison-fleet/garrison/pkg/page"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

// Sources is every source, by name.
type Sources struct{ table *fold.Table[*sourcev1.Source] }

// apply folds one fact.
func (s *Sources) apply(f ledger.Fact) bool {
	have, _ := s.table.Get(f.Key)
	next, fit := source.Apply(have, f)
	switch {
	case !fit:
		s.table.Touch(f.Key, f.Sequence)
	case next == nil:
		s.table.Drop(f.Key, f.Sequence)
	default:
		s.table.Put(f.Key, next, f.Sequence)
	}
	return fit
}

// Find returns a source, or a refusal that names the nearest.
func (s *Sources) Find(name string) (*sourcev1.Source, error) {
	found, ok := s.table.Get(name)
	if !ok {
		names := s.names()
		return nil, refuse(fault.NotFound, code.NotFound, "no source %.80q (%d searched)", name, len(names)).
			Near(nearest.Name(name, slices.Values(names))).Try("garrison source list")
	}
	return proto.CloneOf(found), nil
}

// List returns one part of the sources, by name.
func (s *Sources) List(p *apiv1.Page) (page.Part[*sourcev1.Source], error) { return byName(s.table, p) }

// Len returns how many sources there are.
func (s *Sources) Len() int { return len(s.names()) }

// Sequence returns the sequence of the last fact about a source.
func (s *Sources) Sequence(name string) uint64 { return s.table.Sequence(name) }

func (s *Sources) names() (names []string) {
	for name := range s.table.All() {
		names = append(names, name)
	}
	return names
}
