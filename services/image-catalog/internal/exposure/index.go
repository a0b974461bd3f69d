// Package exposure finds the images that contain a package, by the components in their SBOMs and the advisories that
// were imported.
//
// It is pure: no clock, log, bus or files. An Index is not safe for concurrent use; Advisories never change.
package exposure

import (
	"slices"

	"github.com/garrison-fleet/garrison/pkg/advisory"
	"github.com/garrison-fleet/garrison/pkg/sbom"
)

// MaxHeld is how many components of images an index holds, each counted for each image that has it.
const MaxHeld = 5_000_000

// held is a component, with the images that have it.
type held struct {
	sbom.Component
	images []*entry
}

// keys returns the names under which the component is found.
func (h *held) keys() []string {
	keys := []string{advisory.Key(h.Ecosystem, h.Name)}
	if source := advisory.Key(h.Ecosystem, h.Source); h.Source != "" && source != keys[0] {
		keys = append(keys, source)
	}
	return keys
}

// Index has the components of images by name.
type Index struct {
	images map[string]*entry // by digest
	held   map[sbom.Component]*held
	byKey  map[string][]*held
	size   int
}

// entry is what is known of an image.
type entry struct {
	digest  string
	hasSBOM bool
	held    []*held
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{images: map[string]*entry{}, held: map[sbom.Component]*held{}, byKey: map[string][]*held{}}
}

// Known reports whether an image is in the index, and whether it has an SBOM.
func (x *Index) Known(digest string) (known, hasSBOM bool) {
	e, known := x.images[digest]
	return known, known && e.hasSBOM
}

// Put adds an image, whose components are each there once. It reports false when the index is full, and does not have
// the image then.
func (x *Index) Put(digest string, components []sbom.Component, hasSBOM bool) bool {
	x.Drop(digest)
	if x.size+len(components) > MaxHeld {
		return false
	}
	e := &entry{digest: digest, hasSBOM: hasSBOM, held: make([]*held, 0, len(components))}
	for _, c := range components {
		h := x.held[c]
		if h == nil {
			h = &held{Component: c}
			x.held[c] = h
			for _, key := range h.keys() {
				x.byKey[key] = append(x.byKey[key], h)
			}
		}
		h.images, e.held = append(h.images, e), append(e.held, h)
	}
	x.size += len(e.held)
	x.images[digest] = e
	return true
}

// Drop removes an image.
func (x *Index) Drop(digest string) {
	e := x.images[digest]
	if e == nil {
		return
	}
	for _, h := range e.held {
		if h.images = without(h.images, e); len(h.images) > 0 {
			continue
		}
		delete(x.held, h.Component)
		for _, key := range h.keys() {
			if x.byKey[key] = without(x.byKey[key], h); len(x.byKey[key]) == 0 {
				delete(x.byKey, key)
			}
		}
	}
	x.size -= len(e.held)
	delete(x.images, digest)
}

// without returns all but one of some pointers, in another order.
func without[T any](all []*T, one *T) []*T {
	at, last := slices.Index(all, one), len(all)-1
	all[at], all[last] = all[last], nil
	return all[:last]
}

// Keep drops every image that is not among digests.
func (x *Index) Keep(digests map[string]bool) {
	for digest := range x.images {
		if !digests[digest] {
			x.Drop(digest)
		}
	}
}

// Query looks for components by the key of their name.
type Query struct {
	Key   string
	Match func(sbom.Component) advisory.Match
}

// Hit is a vulnerable component of an image.
type Hit struct {
	sbom.Component
	advisory.Match
}

// Find returns the vulnerable components of each image, by digest: what any of the queries matches, each once.
func (x *Index) Find(queries []Query) map[string][]Hit {
	best := map[*held]advisory.Match{}
	for _, q := range queries {
		for _, h := range x.byKey[q.Key] {
			if m := q.Match(h.Component); m.Verdict > best[h].Verdict {
				best[h] = m
			}
		}
	}
	found := map[string][]Hit{}
	for h, m := range best {
		for _, e := range h.images {
			found[e.digest] = append(found[e.digest], Hit{h.Component, m})
		}
	}
	return found
}
