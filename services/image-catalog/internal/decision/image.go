// Package decision holds the image-catalog's decisions: given the view, which facts a request
// leads to, or why it is refused.
//
// It is pure: no clock, log, bus or files. Drafts have no id, time and actor, which the shell
// fills in.
//
// Guarantees:
//
//  1. A draft is guarded so that it is recorded only on what the decision was taken on: by its
//     key, and a new image by all images that were ever created.
//  2. A decision whose outcome already holds has no drafts.
//  3. An agent, version and platform have one image, and images that share a digest share its
//     chunks.
package decision

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// Activate decides that an image may be installed, from a channel. Without one it stays in those that it is in, and one
// that is in none joins the default channel. whole reports that the caller has verified its content; without it only an
// active image joins a channel.
func Activate(v *view.View, id, channel string, whole bool) ([]ledger.Draft, error) {
	i, err := v.ImageByID(id)
	if err != nil {
		return nil, err
	}
	if channel == "" {
		channel = append(slices.Clone(i.Channels), DefaultChannel)[0]
	}
	if _, err := v.Channel(channel); err != nil {
		return nil, err
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
		return nil, refuse(fault.Conflict, code.Conflict, "image %s (%s) was changed meanwhile",
			id, view.Label(i.Manifest)).
			Try("garrison image activate " + id)
	}
	drafts := onImage(v, id, bodies...)
	if !slices.Contains(i.Channels, channel) {
		drafts = append(drafts, onChannel(v, channel, &channelv1.ImageAdded{ImageId: id})...)
	}
	return drafts, nil
}

// Disable decides that an active image must no longer be installed.
func Disable(v *view.View, id, reason string) ([]ledger.Draft, error) {
	i, err := v.ImageByID(id)
	if err != nil {
		return nil, err
	}
	switch i.State {
	case imagev1.State_STATE_DISABLED:
		return nil, nil
	case imagev1.State_STATE_ACTIVE:
		return onImage(v, id, &imagev1.Disabled{Reason: reason}), nil
	}
	return nil, notActive(i, "was never activated, so there is nothing to disable")
}

func notActive(i *imagev1.Image, why string) error {
	return refuse(fault.Conflict, code.NotActive, "image %s (%s) %s", i.Manifest.Id, view.Label(i.Manifest), why).
		Try("garrison image activate " + i.Manifest.Id)
}

// Delete decides that an image is deleted, from its channels too. With a time its state must not have changed since.
func Delete(v *view.View, id string, since *timestamppb.Timestamp) ([]ledger.Draft, error) {
	i, err := v.ImageByID(id)
	if err != nil {
		return nil, err
	}
	if since != nil && !since.AsTime().Equal(i.Since.AsTime()) {
		return nil, refuse(fault.Conflict, code.RevisionChanged, "image %s (%s) changed its state at %s",
			id, view.Label(i.Manifest), i.Since.AsTime().Format(time.RFC3339)).
			Try("garrison image show " + id)
	}
	if i.State == imagev1.State_STATE_ACTIVE {
		return nil, refuse(fault.Conflict, code.Active, "image %s (%s) is active; disable it before it is deleted",
			id, view.Label(i.Manifest)).
			Try("garrison image disable " + id)
	}
	var drafts []ledger.Draft
	for _, name := range i.Channels {
		drafts = append(drafts, onChannel(v, name, &channelv1.ImageRemoved{ImageId: id})...)
	}
	return append(drafts, onImage(v, id, &imagev1.Deleted{})...), nil
}

func imageFact(id string, body proto.Message) ledger.Fact {
	return ledger.Fact{Noun: ledger.Image, Key: id, Body: body}
}

// onImage drafts facts about one image, guarded by its key.
func onImage(v *view.View, id string, bodies ...proto.Message) []ledger.Draft {
	return onKey(ledger.Image, id, v.ImageSequence(id), bodies)
}

// onChannel drafts facts about one channel, guarded by its key.
func onChannel(v *view.View, name string, bodies ...proto.Message) []ledger.Draft {
	return onKey(ledger.Channel, name, v.ChannelSequence(name), bodies)
}

// onKey drafts facts about one key. Only the first is guarded: all are recorded or none.
func onKey(noun ledger.Noun, key string, sequence uint64, bodies []proto.Message) (drafts []ledger.Draft) {
	for n, b := range bodies {
		f := ledger.Fact{Noun: noun, Key: key, Body: b}
		if n == 0 {
			drafts = append(drafts, ledger.OnKey(f, sequence))
		} else {
			drafts = append(drafts, ledger.Free(f))
		}
	}
	return drafts
}

func refuse(kind fault.Kind, code, format string, args ...any) *fault.Error {
	return fault.Refusef(kind, code, format, args...).From(ledger.Catalog)
}

// Create decides that an image with a valid manifest is created.
//
// Its guard spans every image that was ever created: two builds of one version have different
// keys, and two catalogs that receive one each must not both accept theirs.
func Create(v *view.View, m *imagev1.Manifest) ([]ledger.Draft, error) {
	if have, ok := v.Image(m.Id); ok {
		return nil, checkSame(have.Manifest, m)
	}
	if id, ok := v.ByBuild(m); ok {
		have, _ := v.Image(id)
		return nil, versionExists(id, "%s exists with another content (digest %.12x, this one has %.12x); "+
			"a version never changes, so build it as a new one", view.Label(m),
			have.Manifest.GetBlob().GetDigest(), m.GetBlob().GetDigest())
	}
	for _, id := range v.ByDigest(m.GetBlob().GetDigest()) {
		if have, _ := v.Image(id); !proto.Equal(have.Manifest.Blob, m.Blob) {
			return nil, refuse(fault.Conflict, code.OtherChunks,
				"%s (%s) has the same digest %.12x but is cut into other chunks; one of the two manifests is wrong", id,
				view.Label(have.Manifest), m.GetBlob().GetDigest()).
				Near(id).Try("garrison image show " + id)
		}
	}
	created := imageFact(m.Id, &imagev1.Created{Manifest: m})
	every := imageFact("*", created.Body).Subject()
	return []ledger.Draft{
		{Fact: created, Guard: ledger.Guard{Subject: every, Sequence: v.CreatedSequence()}},
	}, nil
}

// checkSame accepts a repeated manifest. Its time of publication and the signatures, which cover
// that time, may differ: a build can be repeated. A new signer is refused: a version never changes.
func checkSame(have, again *imagev1.Manifest) error {
	a, b := proto.CloneOf(have), proto.CloneOf(again)
	a.PublishedAt, b.PublishedAt = nil, nil
	a.Seal, b.Seal = nil, nil
	if proto.Equal(a, b) {
		return checkSigners(have, again)
	}
	return versionExists(have.Id, "%s exists with the same content and another %s; "+
		"a version never changes, so build it as a new one", view.Label(have), strings.Join(differing(a, b), ", "))
}

func checkSigners(have, again *imagev1.Manifest) error {
	for _, s := range again.GetSeal().GetSignatures() {
		same := func(h *imagev1.Signature) bool { return h.Key == s.Key }
		if !slices.ContainsFunc(have.GetSeal().GetSignatures(), same) {
			return versionExists(have.Id, "%s exists without the signature of %s", view.Label(have), s.Key).
				Try("garrison image delete " + have.Id + ", and import it again")
		}
	}
	return nil
}

func versionExists(id, format string, args ...any) *fault.Error {
	return refuse(fault.Conflict, code.VersionExists, format, args...).Near(id).Try("garrison image show " + id)
}

// differing returns the names of the fields in which two manifests differ.
func differing(a, b *imagev1.Manifest) (names []string) {
	fields := a.ProtoReflect().Descriptor().Fields()
	for n := range fields.Len() {
		f := fields.Get(n)
		if !a.ProtoReflect().Get(f).Equal(b.ProtoReflect().Get(f)) {
			names = append(names, string(f.Name()))
		}
	}
	return names
}
