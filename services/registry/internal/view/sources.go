package view

import (
	"iter"
	"slices"

	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

// origins finds images, and where they come from.
type origins struct{ *tables }

// Sources returns every source of images, by name.
func (v *origins) Sources() iter.Seq[*sourcev1.Source] {
	return at(v.sources, slices.Values(slices.Sorted(keys(v.sources))))
}
