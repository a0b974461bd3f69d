package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// maxNamed is how many images the refusal of an ambiguous reference lists.
const maxNamed = 5

// finder finds images and channels, and refuses with what is near.
type finder struct{ *tables }

// Image returns an image with its channels, by its id. The caller may keep it and must not change
// it: its manifest is shared, because manifests never change and a copy of thousands of chunk
// digests for each uploaded chunk would be expensive.
func (f *finder) Image(id string) (*imagev1.Image, bool) {
	i, ok := f.images.Get(id)
	if !ok {
		return nil, false
	}
	return f.with(i, i.Manifest), true
}

// Manifest returns the manifest of an image, or nil. The caller must not change it.
func (f *finder) Manifest(id string) *imagev1.Manifest {
	i, _ := f.images.Get(id)
	return i.GetManifest()
}

// Find returns the image that ref names, with its channels, or a refusal; see Resolve.
func (f *finder) Find(ref string) (*imagev1.Image, error) {
	id, err := f.Resolve(ref)
	if err != nil {
		return nil, err
	}
	return f.ImageByID(id)
}

// ImageByID returns an image with its channels, or a refusal that names similar images.
func (f *finder) ImageByID(id string) (*imagev1.Image, error) {
	i, ok := f.Image(id)
	if !ok {
		return nil, f.noReference(id)
	}
	return i, nil
}

// with returns the record with its channels and a manifest, whole or not.
func (f *finder) with(i *imagev1.Image, m *imagev1.Manifest) *imagev1.Image {
	return &imagev1.Image{
		Manifest: m, State: i.State, Filled: i.Filled, Since: i.Since, Reason: i.Reason,
		Channels: slices.Clone(f.index.channelsOf(i.Manifest.Id)),
	}
}

// Channel returns a copy of a channel, or a refusal that names a similar one.
func (f *finder) Channel(name string) (*channelv1.Channel, error) {
	c, ok := f.channels.Get(name)
	if !ok {
		return nil, f.noChannel(name)
	}
	return proto.CloneOf(c), nil
}

// Resolve returns the id of the image that ref names: its id, a prefix that only one has, or agent@version.
func (f *finder) Resolve(ref string) (string, error) {
	if _, ok := f.images.Get(ref); ok {
		return ref, nil
	}
	if agent, version, ok := strings.Cut(ref, "@"); ok {
		return f.byVersion(agent, version)
	}
	if ref == "" || strings.Trim(ref, "0123456789abcdef-") != "" {
		return "", f.noReference(ref)
	}
	return f.byPrefix(ref)
}

func (f *finder) byPrefix(prefix string) (string, error) {
	var found []string
	f.index.ids.Ascend(prefix, func(id string) bool {
		if strings.HasPrefix(id, prefix) {
			found = append(found, id)
		}
		return strings.HasPrefix(id, prefix) && len(found) <= maxNamed
	})
	switch len(found) {
	case 0:
		return "", f.noReference(prefix)
	case 1:
		return found[0], nil
	}
	return "", f.ambiguous(prefix, found)
}

func (f *finder) byVersion(agent, version string) (string, error) {
	var found []string
	f.index.all.Ascend(entryOf(agent, version, ""), func(e entry) bool {
		same := e.agent == agent && e.raw == version
		if same {
			found = append(found, e.id)
		}
		return same
	})
	switch len(found) {
	case 0:
		return "", f.noVersion(agent, version)
	case 1:
		return found[0], nil
	}
	return "", f.ambiguous(agent+"@"+version, found)
}

// ByBuild returns the id of the image of the same agent, version and platform as a manifest.
func (f *finder) ByBuild(m *imagev1.Manifest) (id string, ok bool) {
	id, ok = f.index.byBuild[buildOf(m)]
	return id, ok
}

// ImageSequence returns the sequence of the last fact on an image's key; 0 when it has none.
func (f *finder) ImageSequence(id string) uint64 { return f.images.Sequence(id) }

// ChannelSequence returns the sequence of the last fact on a channel's key; 0 when it has none.
func (f *finder) ChannelSequence(name string) uint64 { return f.channels.Sequence(name) }

// CreatedSequence returns the sequence of the last fact image.created, whatever became of its image.
func (f *finder) CreatedSequence() uint64 { return f.marks.Sequence(createdMark) }

// ByDigest returns the ids of the images with that content, sorted.
func (f *finder) ByDigest(digest []byte) []string {
	return slices.Clone(f.index.byDigest[string(digest)])
}

// versions returns how many images an agent has, and the newest of them.
func (f *finder) versions(agent string) (count int, newest entry) {
	f.index.all.Ascend(entry{agent: agent}, func(e entry) bool {
		if e.agent != agent {
			return false
		}
		count, newest = count+1, e
		return true
	})
	return count, newest
}

// agents returns the names of all agents that have images, sorted.
func (f *finder) agents() []string {
	var names []string
	f.index.all.Scan(func(e entry) bool {
		if len(names) == 0 || names[len(names)-1] != e.agent {
			names = append(names, e.agent)
		}
		return true
	})
	return names
}

func (f *finder) ambiguous(ref string, ids []string) error {
	var names []string
	for n, id := range ids {
		if n == maxNamed {
			names = append(names, "…")
			break
		}
		i, _ := f.images.Get(id)
		names = append(names, ident.Short(id)+" ("+Label(i.Manifest)+")")
	}
	return refuse(fault.Invalid, code.Ambiguous, "%q names more than one image: %s",
		ref, strings.Join(names, ", ")).
		Try("garrison image list")
}

// Label returns the name of an image in texts for people: agent, version and platform.
func Label(m *imagev1.Manifest) string {
	return fmt.Sprintf("%s %s for %s/%s", m.GetAgent(), m.GetVersion(), m.GetPlatform().GetOs(),
		m.GetPlatform().GetArch())
}

func refuse(kind fault.Kind, code, format string, args ...any) *fault.Error {
	return fault.Refusef(kind, code, format, args...).From(ledger.Catalog)
}

// noReference refuses a reference that is neither an id nor the start of one.
func (f *finder) noReference(ref string) error {
	if count, newest := f.versions(ref); count > 0 {
		return refuse(fault.NotFound, code.NoMatch,
			"%q is an agent with %s; name one by its id or as agent@version", ref, counted(count, "image")).
			Near(ref + "@" + newest.raw).Try("garrison image list " + ref)
	}
	return refuse(fault.NotFound, code.NoMatch,
		"no image has an id that starts with %q (%s searched); "+
			"name one by its id, a prefix of it, or as agent@version", ref, counted(f.images.Len(), "image")).
		Near(nearest.Name(ref, slices.Values(f.agents()))).Try("garrison image list")
}

// noVersion refuses agent@version.
func (f *finder) noVersion(agent, version string) error {
	count, newest := f.versions(agent)
	if count == 0 {
		agents := f.agents()
		return refuse(fault.NotFound, code.NoMatch, "no image of agent %q (%s of %s searched)",
			agent, counted(f.images.Len(), "image"), counted(len(agents), "agent")).
			Near(nearest.Name(agent, slices.Values(agents))).Try("garrison image list")
	}
	return refuse(fault.NotFound, code.NoMatch, "no image of agent %q version %s (%s searched, newest %s)",
		agent, version, counted(count, "image"), newest.raw).
		Near(agent + "@" + newest.raw).Try("garrison image list " + agent)
}

func (f *finder) noChannel(name string) error {
	var names []string
	for n := range f.channels.All() {
		names = insert(names, n)
	}
	return refuse(fault.NotFound, code.UnknownChannel, "no channel %q (%s searched: %s)",
		name, counted(len(names), "channel"), strings.Join(names[:min(len(names), 20)], ", ")).
		Near(nearest.Name(name, slices.Values(names))).Try("garrison channel list")
}

// counted returns a number and what it counts, such as "1 image" or "2 images".
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
