package server

import (
	"github.com/garrison-fleet/garrison/pkg/fsm"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// State is a state in a server's life.
type State string

// The states. A server is Unknown before its first fact. Forgotten is the end: no record is kept.
const (
	Unknown   State = "unknown"
	Invited   State = "invited"
	Alive     State = "alive"
	Dying     State = "dying"
	Dead      State = "dead"
	Forgotten State = "forgotten"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = fsm.Table[State, string]{
	Unknown: {"invited": Invited},
	Invited: {"changed": Invited, "reinvited": Invited, "enrolled": Alive, "forgotten": Forgotten},
	Alive: {
		"changed": Alive, "labelled": Alive, "sysinfo-seen": Alive, "agents-found": Alive,
		"online": Alive, "offline": Alive,
		"quarantined": Alive, "released": Alive, "revoked": Alive, "reinvited": Alive, "enrolled": Alive,
		"credentials-renewed": Alive, "dying": Dying, "dead": Dead,
		"ahead": Alive, "epoch-raised": Alive, "place-confirmed": Alive, "condition-changed": Alive,
		"duplicated": Alive, "duplicate-ended": Alive, "reinstalling": Alive, "reinstalled": Alive,
		"log-opened": Alive,
	},
	Dying: {
		"changed": Dying, "labelled": Dying, "sysinfo-seen": Dying, "agents-found": Dying,
		"online": Dying, "offline": Dying,
		"quarantined": Dying, "released": Dying, "revoked": Dying, "reinvited": Dying, "enrolled": Dying,
		"credentials-renewed": Dying, "dead": Dead,
		"ahead": Dying, "epoch-raised": Dying, "place-confirmed": Dying, "condition-changed": Dying,
		"duplicated": Dying, "duplicate-ended": Dying, "log-opened": Dying,
	},
	Dead:      {"revoked": Dead, "uninstalled": Dead, "clean-up-failed": Dead, "forgotten": Forgotten},
	Forgotten: {},
}

var lives = map[State]serverv1.Life{
	Invited: serverv1.Life_LIFE_INVITED,
	Alive:   serverv1.Life_LIFE_ALIVE,
	Dying:   serverv1.Life_LIFE_DYING,
	Dead:    serverv1.Life_LIFE_DEAD,
}

// StateOf returns the state that a record's life stands for; Unknown for the zero value.
func StateOf(life serverv1.Life) State {
	for s, l := range lives {
		if l == life {
			return s
		}
	}
	return Unknown
}

// Proto returns the state as the contract spells it; LIFE_UNSPECIFIED for Unknown and Forgotten.
func (s State) Proto() serverv1.Life { return lives[s] }

// Managed reports whether a server is under management. Its beats and reports count if it is also Believed.
func Managed(s *serverv1.Server) bool {
	return s.GetLife() == serverv1.Life_LIFE_ALIVE || s.GetLife() == serverv1.Life_LIFE_DYING
}

// Living reports whether a server exists and is not dead, so that its name is taken.
func Living(s *serverv1.Server) bool { return s != nil && s.GetLife() != serverv1.Life_LIFE_DEAD }

// Epoch returns the epoch that a recorded number stands for: 0, in an old record, is the first epoch.
func Epoch(recorded uint64) uint64 { return max(recorded, 1) }
