package view

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
)

// namedAtOnce is how many images an ambiguity lists.
const namedAtOnce = 5

// Image gives an image with its channels, by its id. It may be kept and must not be
// changed: its manifest is shared, because nothing ever changes one and each chunk that
// comes would copy thousands of digests.
func (v *View) Image(id string) (*imagev1.Image, bool) {
	i, ok := v.images.Get(id)
	if !ok {
		return nil, false
	}
	return v.with(i, i.Manifest), true
}

// with gives the record with its channels and a manifest, whole or not.
func (v *View) with(i *imagev1.Image, m *imagev1.Manifest) *imagev1.Image {
	return &imagev1.Image{
		Manifest: m, State: i.State, Filled: i.Filled, Since: i.Since, Reason: i.Reason,
		Channels: slices.Clone(v.index.channelsOf(i.Manifest.Id)),
	}
}

// Channel gives a copy of a channel.
func (v *View) Channel(name string) (*channelv1.Channel, error) {
	c, ok := v.channels.Get(name)
	if !ok {
		return nil, v.noChannel(name)
	}
	return proto.CloneOf(c), nil
}

// Resolve gives the id of the image that ref names: its id, a prefix that only one has, or agent@version.
func (v *View) Resolve(ref string) (string, error) {
	if _, ok := v.images.Get(ref); ok {
		return ref, nil
	}
	if agent, version, ok := strings.Cut(ref, "@"); ok {
		return v.byVersion(agent, version)
	}
	if ref == "" || strings.Trim(ref, "0123456789abcdef-") != "" {
		return "", v.noReference(ref)
	}
	return v.byPrefix(ref)
}

func (v *View) byPrefix(prefix string) (string, error) {
	var found []string
	v.index.ids.Ascend(prefix, func(id string) bool {
		if strings.HasPrefix(id, prefix) {
			found = append(found, id)
		}
		return strings.HasPrefix(id, prefix) && len(found) <= namedAtOnce
	})
	switch len(found) {
	case 0:
		return "", v.noReference(prefix)
	case 1:
		return found[0], nil
	}
	return "", v.ambiguous(prefix, found)
}

func (v *View) byVersion(agent, version string) (string, error) {
	var found []string
	v.index.all.Ascend(entryOf(agent, version, ""), func(e entry) bool {
		same := e.agent == agent && e.raw == version
		if same {
			found = append(found, e.id)
		}
		return same
	})
	switch len(found) {
	case 0:
		return "", v.noVersion(agent, version)
	case 1:
		return found[0], nil
	}
	return "", v.ambiguous(agent+"@"+version, found)
}

// ByDigest gives the ids of the images with that content, sorted.
func (v *View) ByDigest(digest []byte) []string {
	return slices.Clone(v.index.byDigest[string(digest)])
}

// versions gives how many images an agent has, and the newest of them.
func (v *View) versions(agent string) (count int, newest entry) {
	v.index.all.Ascend(entry{agent: agent}, func(e entry) bool {
		if e.agent != agent {
			return false
		}
		count, newest = count+1, e
		return true
	})
	return count, newest
}

// agents gives the names of all agents that have images, sorted.
func (v *View) agents() []string {
	var names []string
	v.index.all.Scan(func(e entry) bool {
		if len(names) == 0 || names[len(names)-1] != e.agent {
			names = append(names, e.agent)
		}
		return true
	})
	return names
}

func (v *View) ambiguous(ref string, ids []string) error {
	var names []string
	for n, id := range ids {
		if n == namedAtOnce {
			names = append(names, "…")
			break
		}
		i, _ := v.images.Get(id)
		names = append(names, ident.Short(id)+" ("+label(i.Manifest)+")")
	}
	return refuse(fault.Invalid, "AMBIGUOUS_IMAGE", hint{try: "garrison image list"}, "%q names more than one image: %s", ref, strings.Join(names, ", "))
}

// label names an image as people do.
func label(m *imagev1.Manifest) string {
	return fmt.Sprintf("%s %s for %s/%s", m.GetAgent(), m.GetVersion(), m.GetPlatform().GetOs(), m.GetPlatform().GetArch())
}
