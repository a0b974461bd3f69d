// Package channel is the life of the noun channel: an ordered list of images under a name. The
// image-catalog writes the noun; every service that folds channels takes its rules from here.
//
//	next, fit := channel.Apply(previous, fact, known) // nil before the first fact and after the last
//
// Guarantees:
//
//  1. Life is one table. A fact that is not in the row of a channel's state changes nothing.
//  2. Apply has no clock and no I/O: the same facts produce the same record.
//  3. A channel holds each image once, in the order in which they were added, and only images
//     that are known: a view that folds the fact image.deleted calls Drop for its channels.
package channel

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
)

// Default is the channel that exists from the first start and cannot be deleted.
const Default = "release"

// State is a state in a channel's life.
type State string

// The states. A channel is Unknown before its first fact. Deleted is the end: no record is kept.
const (
	Unknown State = "unknown"
	Created State = "created"
	Deleted State = "deleted"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = fsm.Table[State, string]{
	Unknown: {"created": Created},
	Created: {"image-added": Created, "image-removed": Created, "deleted": Deleted},
	Deleted: {},
}

// StateOf returns the state of a channel whose record is c; nil stands for an unknown channel.
func StateOf(c *channelv1.Channel) State {
	if c == nil {
		return Unknown
	}
	return Created
}

// Apply folds a fact into a channel's record, which is nil for an unknown channel, and returns the
// record after it; nil means that the channel is deleted. known reports whether an image exists.
// Apply may change the record in place. It returns false, and the record unchanged, for a fact that
// does not fit.
func Apply(c *channelv1.Channel, f ledger.Fact, known func(imageID string) bool) (*channelv1.Channel, bool) {
	if _, fit := Life.Next(StateOf(c), f.Name()); !fit {
		return c, false
	}
	switch b := f.Body.(type) {
	case *channelv1.Created:
		c = &channelv1.Channel{
			Name: f.Key, Description: b.Description, Default: b.Default, CreatedAt: timestamppb.New(f.At),
		}
	case *channelv1.ImageAdded:
		if !known(b.ImageId) || slices.Contains(c.ImageIds, b.ImageId) {
			return c, false
		}
		c.ImageIds = append(c.ImageIds, b.ImageId)
	case *channelv1.ImageRemoved:
		return c, Drop(c, b.ImageId)
	case *channelv1.Deleted:
		return nil, true
	}
	return c, true
}

// Drop takes an image out of a channel, and reports whether the channel held it. A view calls it
// when an image is deleted: an image may have been added between the decision to delete it and the
// fact.
func Drop(c *channelv1.Channel, imageID string) bool {
	at := slices.Index(c.GetImageIds(), imageID)
	if at < 0 {
		return false
	}
	c.ImageIds = slices.Delete(c.ImageIds, at, at+1)
	return true
}
