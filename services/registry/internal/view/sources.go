package view

import (
	"iter"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/fold"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

// origins is where images can be imported from.
type origins struct{ sources *fold.Table[*sourcev1.Source] }

// Sources returns every source of images, by name.
func (o origins) Sources() iter.Seq[*sourcev1.Source] {
	return at(o.sources, slices.Values(slices.Sorted(keys(o.sources))))
}
