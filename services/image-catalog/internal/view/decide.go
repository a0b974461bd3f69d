package view

import (
	"slices"

	"google.golang.org/protobuf/proto"

	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// DefaultChannel is the channel that is there from the first start and cannot be deleted.
const DefaultChannel = "release"

func imageFact(id string, body proto.Message) ledger.Fact {
	return ledger.Fact{Noun: ledger.Image, Key: id, Body: body}
}

func channelFact(name string, body proto.Message) ledger.Fact {
	return ledger.Fact{Noun: ledger.Channel, Key: name, Body: body}
}

// Create decides that an image with a valid manifest becomes known.
//
// Its guard spans every image that was ever created: two catalogs that get two builds of
// one version, which have different keys, must not both accept theirs.
func (v *View) Create(m *imagev1.Manifest) ([]ledger.Draft, error) {
	if have, ok := v.images.Get(m.Id); ok {
		return nil, sameManifest(have.Manifest, m)
	}
	if id, ok := v.index.byBuild[buildOf(m)]; ok {
		have, _ := v.images.Get(id)
		return nil, refuse(fault.Conflict, "VERSION_EXISTS", hint{nearest: id, try: "garrison image show " + id},
			"%s exists with another content (digest %.12x, this one has %.12x); a version never changes, so build it as a new one", label(m), have.Manifest.GetBlob().GetDigest(), m.GetBlob().GetDigest())
	}
	for _, id := range v.index.byDigest[string(m.GetBlob().GetDigest())] {
		if have, _ := v.images.Get(id); !proto.Equal(have.Manifest.Blob, m.Blob) {
			return nil, refuse(fault.Conflict, "OTHER_CHUNKS", hint{nearest: id, try: "garrison image show " + id},
				"%s (%s) has the same digest %.12x but is cut into other chunks; one of the two manifests is wrong", id, label(have.Manifest), m.GetBlob().GetDigest())
		}
	}
	created := imageFact(m.Id, &imagev1.Created{Manifest: m})
	every := ledger.Fact{Noun: ledger.Image, Key: "*", Body: created.Body}.Subject()
	return []ledger.Draft{{Fact: created, Guard: ledger.Guard{Subject: every, Sequence: v.marks.Sequence(createdMark)}}}, nil
}

// sameManifest accepts a manifest again. When it was published, and what was signed with
// that, may differ: a build can be repeated. A signature that it did not have is refused,
// as a version never changes.
func sameManifest(have, again *imagev1.Manifest) error {
	a, b := proto.CloneOf(have), proto.CloneOf(again)
	a.PublishedAt, b.PublishedAt = nil, nil
	a.Seal, b.Seal = nil, nil
	if proto.Equal(a, b) {
		return sameSigners(have, again)
	}
	return refuse(fault.Conflict, "VERSION_EXISTS", hint{nearest: have.Id, try: "garrison image show " + have.Id},
		"%s exists with the same content and another %s; a version never changes, so build it as a new one", label(have), differing(a, b))
}

func sameSigners(have, again *imagev1.Manifest) error {
	for _, s := range again.GetSeal().GetSignatures() {
		if !slices.ContainsFunc(have.GetSeal().GetSignatures(), func(h *imagev1.Signature) bool { return h.Key == s.Key }) {
			return refuse(fault.Conflict, "VERSION_EXISTS", hint{nearest: have.Id, try: "garrison image delete " + have.Id + ", and import it again; or a new version"},
				"%s exists without the signature of %s", label(have), s.Key)
		}
	}
	return nil
}

// differing names the fields of two manifests that differ.
func differing(a, b *imagev1.Manifest) string {
	names := ""
	fields := a.ProtoReflect().Descriptor().Fields()
	for n := range fields.Len() {
		f := fields.Get(n)
		if !a.ProtoReflect().Get(f).Equal(b.ProtoReflect().Get(f)) {
			if names != "" {
				names += ", "
			}
			names += string(f.Name())
		}
	}
	return names
}

// Activate decides that an image may be installed, from a channel. whole says that the
// caller has found its content whole; without it only an active image joins a channel.
func (v *View) Activate(id, channel string, whole bool) ([]ledger.Draft, error) {
	i, ok := v.images.Get(id)
	if !ok {
		return nil, v.noReference(id)
	}
	if _, ok := v.channels.Get(channel); !ok {
		return nil, v.noChannel(channel)
	}
	var bodies []proto.Message
	switch i.State {
	case imagev1.State_STATE_UNACTIVATED:
		if !i.Filled {
			bodies = append(bodies, &imagev1.Filled{})
		}
		bodies = append(bodies, &imagev1.Activated{})
	case imagev1.State_STATE_DISABLED:
		bodies = append(bodies, &imagev1.Enabled{})
	}
	if len(bodies) > 0 && !whole {
		return nil, refuse(fault.Conflict, "MOVED", hint{try: "garrison image activate " + id}, "image %s (%s) was changed meanwhile", id, label(i.Manifest))
	}
	drafts := v.onImage(id, bodies)
	if !slices.Contains(v.index.channelsOf(id), channel) {
		drafts = append(drafts, v.onChannel(channel, &channelv1.ImageAdded{ImageId: id})...)
	}
	return drafts, nil
}

// onImage drafts facts about one image; the first is guarded and carries the others, as all are recorded or none.
func (v *View) onImage(id string, bodies []proto.Message) []ledger.Draft {
	var drafts []ledger.Draft
	for n, b := range bodies {
		if n == 0 {
			drafts = append(drafts, ledger.OnKey(imageFact(id, b), v.images.Sequence(id)))
			continue
		}
		drafts = append(drafts, ledger.Free(imageFact(id, b)))
	}
	return drafts
}

func (v *View) onChannel(name string, bodies ...proto.Message) []ledger.Draft {
	var drafts []ledger.Draft
	for n, b := range bodies {
		if n == 0 {
			drafts = append(drafts, ledger.OnKey(channelFact(name, b), v.channels.Sequence(name)))
			continue
		}
		drafts = append(drafts, ledger.Free(channelFact(name, b)))
	}
	return drafts
}

// Disable decides that an active image may not be newly installed.
func (v *View) Disable(id, reason string) ([]ledger.Draft, error) {
	i, ok := v.images.Get(id)
	if !ok {
		return nil, v.noReference(id)
	}
	switch i.State {
	case imagev1.State_STATE_DISABLED:
		return nil, nil
	case imagev1.State_STATE_ACTIVE:
		return v.onImage(id, []proto.Message{&imagev1.Disabled{Reason: reason}}), nil
	}
	return nil, v.notActive(i, "was never activated, so there is nothing to disable")
}

func (v *View) notActive(i *imagev1.Image, why string) error {
	return refuse(fault.Conflict, "NOT_ACTIVE", hint{try: "garrison image activate " + i.Manifest.Id}, "image %s (%s) %s", i.Manifest.Id, label(i.Manifest), why)
}

// Delete decides that an image goes, from its channels too.
func (v *View) Delete(id string) ([]ledger.Draft, error) {
	i, ok := v.images.Get(id)
	if !ok {
		return nil, v.noReference(id)
	}
	if i.State == imagev1.State_STATE_ACTIVE {
		return nil, refuse(fault.Conflict, "ACTIVE", hint{try: "garrison image disable " + id}, "image %s (%s) is active; what may be installed is not deleted", id, label(i.Manifest))
	}
	var drafts []ledger.Draft
	for _, name := range v.index.channelsOf(id) {
		drafts = append(drafts, v.onChannel(name, &channelv1.ImageRemoved{ImageId: id})...)
	}
	return append(drafts, v.onImage(id, []proto.Message{&imagev1.Deleted{}})...), nil
}

// Promote decides that an active image becomes the newest of a channel.
func (v *View) Promote(id, channel string) ([]ledger.Draft, error) {
	i, ok := v.images.Get(id)
	if !ok {
		return nil, v.noReference(id)
	}
	c, ok := v.channels.Get(channel)
	if !ok {
		return nil, v.noChannel(channel)
	}
	if i.State != imagev1.State_STATE_ACTIVE {
		return nil, v.notActive(i, "is not active, so no channel can offer it")
	}
	at := slices.Index(c.ImageIds, id)
	switch {
	case at >= 0 && at == len(c.ImageIds)-1:
		return nil, nil
	case at >= 0:
		return v.onChannel(channel, &channelv1.ImageRemoved{ImageId: id}, &channelv1.ImageAdded{ImageId: id}), nil
	}
	return v.onChannel(channel, &channelv1.ImageAdded{ImageId: id}), nil
}

// CreateChannel decides that there is a channel.
func (v *View) CreateChannel(name, description string) ([]ledger.Draft, error) {
	if err := ident.CheckName("channel", name); err != nil {
		return nil, refuse(fault.Invalid, "BAD_NAME", hint{}, "%v", err)
	}
	if len(description) > 1024 {
		return nil, refuse(fault.Invalid, "BAD_DESCRIPTION", hint{}, "the description has %d bytes, want at most 1024", len(description))
	}
	if c, ok := v.channels.Get(name); ok {
		if c.Description == description {
			return nil, nil
		}
		return nil, refuse(fault.Conflict, "CHANNEL_EXISTS", hint{try: "garrison channel list"}, "channel %q exists with another description, %q", name, c.Description)
	}
	return v.onChannel(name, &channelv1.Created{Description: description}), nil
}

// CreateDefault decides that there is a default channel, once.
func (v *View) CreateDefault() []ledger.Draft {
	if _, ok := v.channels.Get(DefaultChannel); ok {
		return nil
	}
	return v.onChannel(DefaultChannel, &channelv1.Created{Description: "What is installed when no channel is named.", Default: true})
}

// DeleteChannel decides that a channel goes. Its images stay.
func (v *View) DeleteChannel(name string) ([]ledger.Draft, error) {
	c, ok := v.channels.Get(name)
	if !ok {
		return nil, v.noChannel(name)
	}
	if c.Default {
		return nil, refuse(fault.Conflict, "DEFAULT_CHANNEL", hint{}, "channel %q is the one that is used when none is named; it cannot be deleted", name)
	}
	return v.onChannel(name, &channelv1.Deleted{}), nil
}
