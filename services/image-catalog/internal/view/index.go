package view

import (
	"cmp"
	"slices"

	"github.com/tidwall/btree"

	"github.com/garrison-fleet/garrison/pkg/version"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// entry is an image's position in the order of lists: by agent, version and id.
type entry struct {
	agent string
	place version.Key
	raw   string
	id    string
}

func entryOf(agent, text, id string) entry {
	return entry{agent: agent, place: version.KeyOf(text), raw: text, id: id}
}

func compare(a, b entry) int {
	return cmp.Or(cmp.Compare(a.agent, b.agent), a.place.Compare(b.place), cmp.Compare(a.raw, b.raw),
		cmp.Compare(a.id, b.id))
}

type ordered = btree.BTreeG[entry]

func newOrdered() *ordered {
	return btree.NewBTreeG(func(a, b entry) bool { return compare(a, b) < 0 })
}

// build identifies a build: it has one image at most.
type build struct{ agent, version, os, arch string }

func buildOf(m *imagev1.Manifest) build {
	return build{m.GetAgent(), m.GetVersion(), m.GetPlatform().GetOs(), m.GetPlatform().GetArch()}
}

// index finds images without a scan of all of them. It is derived from the tables.
type index struct {
	all       *ordered // its prefixes are the agents
	byState   map[imagev1.State]*ordered
	byChannel map[string]*ordered
	byBuild   map[build]string
	byDigest  map[string][]string // ids, sorted, by the digest's bytes
	channels  map[string][]string // names, sorted, by image id
	ids       *btree.Set[string]
}

func newIndex() *index {
	return &index{
		all: newOrdered(), byState: map[imagev1.State]*ordered{}, byChannel: map[string]*ordered{},
		byBuild: map[build]string{}, byDigest: map[string][]string{}, channels: map[string][]string{},
		ids: &btree.Set[string]{},
	}
}

func entryOfImage(i *imagev1.Image) entry {
	return entryOf(i.Manifest.Agent, i.Manifest.Version, i.Manifest.Id)
}

func (x *index) add(i *imagev1.Image) {
	m := i.Manifest
	x.all.Set(entryOfImage(i))
	x.ids.Insert(m.Id)
	x.byBuild[buildOf(m)] = m.Id
	d := string(m.GetBlob().GetDigest())
	x.byDigest[d] = insert(x.byDigest[d], m.Id)
	enter(x.byState, i.State, entryOfImage(i))
}

func (x *index) remove(i *imagev1.Image) {
	m := i.Manifest
	x.all.Delete(entryOfImage(i))
	x.ids.Delete(m.Id)
	delete(x.byBuild, buildOf(m))
	d := string(m.GetBlob().GetDigest())
	keepOrDelete(x.byDigest, d, without(x.byDigest[d], m.Id))
	leave(x.byState, i.State, entryOfImage(i))
}

// moveState moves an image to its present state from the one before.
func (x *index) moveState(i *imagev1.Image, before imagev1.State) {
	if i.State == before {
		return
	}
	leave(x.byState, before, entryOfImage(i))
	enter(x.byState, i.State, entryOfImage(i))
}

func (x *index) joinChannel(i *imagev1.Image, channel string) {
	id := i.Manifest.Id
	x.channels[id] = insert(x.channels[id], channel)
	enter(x.byChannel, channel, entryOfImage(i))
}

func (x *index) leaveChannel(i *imagev1.Image, channel string) {
	id := i.Manifest.Id
	keepOrDelete(x.channels, id, without(x.channels[id], channel))
	leave(x.byChannel, channel, entryOfImage(i))
}

func (x *index) channelsOf(id string) []string { return x.channels[id] }

func enter[K comparable](in map[K]*ordered, k K, e entry) {
	if in[k] == nil {
		in[k] = newOrdered()
	}
	in[k].Set(e)
}

func leave[K comparable](in map[K]*ordered, k K, e entry) {
	if o := in[k]; o != nil {
		o.Delete(e)
		if o.Len() == 0 {
			delete(in, k)
		}
	}
}

// without returns names without one of them; it changes the slice in place.
func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(have string) bool { return have == name })
}

// insert adds s to sorted names, once.
func insert(names []string, s string) []string {
	at, found := slices.BinarySearch(names, s)
	if found {
		return names
	}
	return slices.Insert(names, at, s)
}

func keepOrDelete(in map[string][]string, k string, names []string) {
	if len(names) == 0 {
		delete(in, k)
		return
	}
	in[k] = names
}
