// Package image is the life of an image, as one table.
//
// Guarantees:
//
//  1. Life is the whole specification; the picture in the service's README is printed from it.
//  2. A deleted image has no record. The same build may be created again, as a new life.
package image

import (
	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fsm"
)

// State is where an image is in its life.
type State string

// The states.
const (
	Unactivated State = "unactivated"
	Active      State = "active"
	Disabled    State = "disabled"
	Deleted     State = "deleted"
)

// Event is a fact's name, as in the ledger.
type Event string

// The events after created.
const (
	Filled    Event = "filled"
	Activated Event = "activated"
	WasOff    Event = "disabled"
	Enabled   Event = "enabled"
	WasErased Event = "deleted"
)

// Life says what can happen in which state. Filled is not a state: it says that the
// content was found whole, and comes in one unit with activated.
var Life = fsm.Table[State, Event]{
	Unactivated: {Filled: Unactivated, Activated: Active, WasErased: Deleted},
	Active:      {WasOff: Disabled},
	Disabled:    {Enabled: Active, WasErased: Deleted},
	Deleted:     {},
}

var states = map[imagev1.State]State{
	imagev1.State_STATE_UNACTIVATED: Unactivated,
	imagev1.State_STATE_ACTIVE:      Active,
	imagev1.State_STATE_DISABLED:    Disabled,
}

var records = map[State]imagev1.State{
	Unactivated: imagev1.State_STATE_UNACTIVATED,
	Active:      imagev1.State_STATE_ACTIVE,
	Disabled:    imagev1.State_STATE_DISABLED,
}

// StateOf reads the state of a record.
func StateOf(i *imagev1.Image) State { return states[i.GetState()] }

// Record gives a state as records have it; Deleted has none.
func (s State) Record() imagev1.State { return records[s] }

// EventOf gives the event that a fact about an image is; empty for created and for facts about other nouns.
func EventOf(body proto.Message) Event {
	switch body.(type) {
	case *imagev1.Filled:
		return Filled
	case *imagev1.Activated:
		return Activated
	case *imagev1.Disabled:
		return WasOff
	case *imagev1.Enabled:
		return Enabled
	case *imagev1.Deleted:
		return WasErased
	}
	return ""
}
