package image

import (
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fsm"
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
