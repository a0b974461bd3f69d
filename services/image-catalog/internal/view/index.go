package view

import (
	"cmp"
	"slices"

	"github.com/Masterminds/semver/v3"
	"github.com/tidwall/btree"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// entry is an image in order: by agent, version and id.
type entry struct {
	agent   string
	version *semver.Version // nil comes before every version
	raw     string
	id      string
}

func entryOf(agent, version, id string) entry {
	parsed, _ := semver.StrictNewVersion(version) // a fold has no errors: what cannot be read comes first
	return entry{agent: agent, version: parsed, raw: version, id: id}
}

func compare(a, b entry) int {
	return cmp.Or(cmp.Compare(a.agent, b.agent), compareVersions(a.version, b.version), cmp.Compare(a.raw, b.raw), cmp.Compare(a.id, b.id))
}

func compareVersions(a, b *semver.Version) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return a.Compare(b)
}

type ordered = btree.BTreeG[entry]

func newOrdered() *ordered {
	return btree.NewBTreeG(func(a, b entry) bool { return compare(a, b) < 0 })
}

// build is what there is one image of.
type build struct{ agent, version, os, arch string }

func buildOf(m *imagev1.Manifest) build {
	return build{m.GetAgent(), m.GetVersion(), m.GetPlatform().GetOs(), m.GetPlatform().GetArch()}
}

// index finds images without looking at all. It is derived from the tables.
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
		byBuild: map[build]string{}, byDigest: map[string][]string{}, channels: map[string][]string{}, ids: &btree.Set[string]{},
	}
}

func place(i *imagev1.Image) entry {
	return entryOf(i.Manifest.Agent, i.Manifest.Version, i.Manifest.Id)
}

func (x *index) add(i *imagev1.Image) {
	m := i.Manifest
	x.all.Set(place(i))
	x.ids.Insert(m.Id)
	x.byBuild[buildOf(m)] = m.Id
	d := string(m.GetBlob().GetDigest())
	x.byDigest[d] = insert(x.byDigest[d], m.Id)
	x.enterState(i)
}

func (x *index) drop(i *imagev1.Image) {
	m := i.Manifest
	x.all.Delete(place(i))
	x.ids.Delete(m.Id)
	delete(x.byBuild, buildOf(m))
	d := string(m.GetBlob().GetDigest())
	keepOrDelete(x.byDigest, d, without(x.byDigest[d], m.Id))
	x.leaveState(i)
}

func (x *index) enterState(i *imagev1.Image) { enter(x.byState, i.State, place(i)) }
func (x *index) leaveState(i *imagev1.Image) { leave(x.byState, i.State, place(i)) }

func (x *index) join(i *imagev1.Image, channel string) {
	id := i.Manifest.Id
	x.channels[id] = insert(x.channels[id], channel)
	enter(x.byChannel, channel, place(i))
}

func (x *index) part(i *imagev1.Image, channel string) {
	id := i.Manifest.Id
	keepOrDelete(x.channels, id, without(x.channels[id], channel))
	leave(x.byChannel, channel, place(i))
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
