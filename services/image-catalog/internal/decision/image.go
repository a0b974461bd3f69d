package decision

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// Activate decides that an image may be installed, from a channel. whole reports that the caller
// has verified its content; without it only an active image joins a channel.
func Activate(v *view.View, id, channel string, whole bool) ([]ledger.Draft, error) {
	i, err := v.ImageByID(id)
	if err != nil {
		return nil, err
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
