package decision

import (
	"slices"

	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/channel"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// DefaultChannel is the channel that requests mean which name none.
const DefaultChannel = channel.Default

const maxDescription = 1024

// Promote decides that an active image becomes the newest of a channel.
func Promote(v *view.View, id, channel string) ([]ledger.Draft, error) {
	i, err := v.ImageByID(id)
	if err != nil {
		return nil, err
	}
	c, err := v.Channel(channel)
	if err != nil {
		return nil, err
	}
	if i.State != imagev1.State_STATE_ACTIVE {
		return nil, notActive(i, "is not active, so no channel can offer it")
	}
	switch at := slices.Index(c.ImageIds, id); {
	case at < 0:
		return onChannel(v, channel, &channelv1.ImageAdded{ImageId: id}), nil
	case at < len(c.ImageIds)-1:
		return onChannel(v, channel, &channelv1.ImageRemoved{ImageId: id}, &channelv1.ImageAdded{ImageId: id}), nil
	}
	return nil, nil
}

// Demote decides that a channel no longer offers an image, whatever the image's state is.
func Demote(v *view.View, id, channel string) ([]ledger.Draft, error) {
	if _, err := v.ImageByID(id); err != nil {
		return nil, err
	}
	c, err := v.Channel(channel)
	if err != nil || !slices.Contains(c.ImageIds, id) {
		return nil, err
	}
	return TakeBack(v, id, channel), nil
}

// TakeBack decides that a channel no longer offers an image.
func TakeBack(v *view.View, id, channel string) []ledger.Draft {
	return onChannel(v, channel, &channelv1.ImageRemoved{ImageId: id})
}

// CreateChannel decides that a channel exists.
func CreateChannel(v *view.View, name, description string) ([]ledger.Draft, error) {
	if err := ident.CheckName("channel", name); err != nil {
		return nil, refuse(fault.Invalid, code.BadName, "%v", err)
	}
	if len(description) > maxDescription {
		return nil, refuse(fault.Invalid, code.Invalid, "the description has %d bytes, want at most %d",
			len(description), maxDescription)
	}
	if c, err := v.Channel(name); err == nil {
		if c.Description == description {
			return nil, nil
		}
		return nil, refuse(fault.Conflict, code.Exists, "channel %q exists with another description, %q",
			name, c.Description).
			Try("garrison channel list")
	}
	return onChannel(v, name, &channelv1.Created{Description: description}), nil
}

// CreateDefaultChannel decides that the default channel exists.
func CreateDefaultChannel(v *view.View) []ledger.Draft {
	if _, err := v.Channel(DefaultChannel); err == nil {
		return nil
	}
	return onChannel(v, DefaultChannel,
		&channelv1.Created{Description: "What is installed when no channel is named.", Default: true})
}

// DeleteChannel decides that a channel is deleted. Its images stay.
func DeleteChannel(v *view.View, name string) ([]ledger.Draft, error) {
	c, err := v.Channel(name)
	if err != nil {
		return nil, err
	}
	if c.Default {
		return nil, refuse(fault.Conflict, code.DefaultChannel,
			"channel %q is the default one and cannot be deleted", name).
			Try("garrison channel list, and delete another one")
	}
	return onChannel(v, name, &channelv1.Deleted{}), nil
}
