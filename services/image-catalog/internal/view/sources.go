package view

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/noun/source"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

func (v *View) applySource(f ledger.Fact) bool {
	have, _ := v.sources.Get(f.Key)
	switch next, fit := source.Apply(have, f); {
	case !fit:
		return false
	case next == nil:
		v.sources.Drop(f.Key, f.Sequence)
	default:
		v.sources.Put(f.Key, next, f.Sequence)
	}
	return true
}

// Source returns a source, or a refusal that names the nearest.
func (v *View) Source(name string) (*sourcev1.Source, error) {
	s, ok := v.sources.Get(name)
	if !ok {
		names := maps.Keys(maps.Collect(v.sources.All()))
		return nil, refuse(fault.NotFound, code.UnknownSource, "no source %.80q (%d searched)", name, v.SourceCount()).
			Near(nearest.Name(name, names)).Try("garrison source list")
	}
	return proto.CloneOf(s), nil
}

// SourceCount returns how many sources there are.
func (v *View) SourceCount() int {
	return len(slices.Collect(maps.Keys(maps.Collect(v.sources.All()))))
}

// SourceSequence returns the sequence of the last fact about a source.
func (v *View) SourceSequence(name string) uint64 { return v.sources.Sequence(name) }
