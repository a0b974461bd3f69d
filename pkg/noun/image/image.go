// Package image is the life of the noun image: its states, the facts that move it, and the
// fold of those facts into a record. The image-catalog writes the noun; every service that
// folds images takes its rules from here.
//
//	next, fit := image.Apply(previous, fact) // nil before the first fact and after the last
//
// Guarantees:
//
//  1. Life is one table. A fact that is not in the row of an image's state changes nothing.
//  2. Apply has no clock and no I/O: the same facts produce the same record.
//  3. An image becomes active only after its content was found whole (the fact filled).
//  4. A deleted image has no record. The same build may be created again, as a new life.
//
// That an agent, version and platform have one image at most is a rule over several images;
// the image-catalog's view enforces it.
package image

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// State is a state in an image's life.
type State string

// The states. An image is Unknown before its first fact. Deleted is the end: no record is kept.
const (
	Unknown     State = "unknown"
	Unactivated State = "unactivated"
	Active      State = "active"
	Disabled    State = "disabled"
	Deleted     State = "deleted"
)

// Life lists which facts can happen in which state, and the state that follows. The fact filled
// changes no state: it records that the content was found whole, and comes in one unit with activated.
var Life = fsm.Table[State, string]{
	Unknown:     {"created": Unactivated},
	Unactivated: {"filled": Unactivated, "activated": Active, "deleted": Deleted},
	Active:      {"disabled": Disabled},
	Disabled:    {"enabled": Active, "deleted": Deleted},
	Deleted:     {},
}

var states = map[imagev1.State]State{
	imagev1.State_STATE_UNACTIVATED: Unactivated,
	imagev1.State_STATE_ACTIVE:      Active,
	imagev1.State_STATE_DISABLED:    Disabled,
}

var protos = map[State]imagev1.State{
	Unactivated: imagev1.State_STATE_UNACTIVATED,
	Active:      imagev1.State_STATE_ACTIVE,
	Disabled:    imagev1.State_STATE_DISABLED,
}

// StateOf returns the state that a record's state stands for; Unknown for the zero value.
func StateOf(s imagev1.State) State {
	if state, ok := states[s]; ok {
		return state
	}
	return Unknown
}

// Proto returns the state as the contract spells it; STATE_UNSPECIFIED for Unknown and Deleted.
func (s State) Proto() imagev1.State { return protos[s] }

// Apply folds a fact into an image's record, which is nil for an unknown image, and returns the
// record after it; nil means that the image is deleted. Apply may change the record in place and
// keeps the manifest of the fact. It returns false, and the record unchanged, for a fact that does
// not fit. Channels of the record are not its business: they follow from the channels' own facts.
func Apply(i *imagev1.Image, f ledger.Fact) (*imagev1.Image, bool) {
	next, fit := Life.Next(StateOf(i.GetState()), f.Name())
	if !fit {
		return i, false
	}
	switch b := f.Body.(type) {
	case *imagev1.Created:
		if b.GetManifest().GetId() != f.Key {
			return i, false
		}
		i = &imagev1.Image{Manifest: b.Manifest}
	case *imagev1.Filled:
		if i.Filled {
			return i, false
		}
		i.Filled = true
		return i, true
	case *imagev1.Activated:
		if !i.Filled {
			return i, false
		}
	case *imagev1.Disabled:
		i.Reason = b.Reason
	case *imagev1.Enabled:
		i.Reason = ""
	case *imagev1.Deleted:
		return nil, true
	}
	i.State, i.Since = next.Proto(), timestamppb.New(f.At)
	return i, true
}
