// Package server is the life of the noun server: its states, the facts that move it, and the
// fold of those facts into a record. The registry writes the noun; every service that folds
// servers takes its rules from here.
//
//	next, fit := server.Life.Next(server.StateOf(record.GetLife()), fact.Name())
//
// Guarantees:
//
//  1. Life is one table and only moves forward. A fact that is not in it changes nothing.
//  2. Apply has no clock and no I/O: the same facts produce the same record.
//  3. A dead server has no token, no key and no presence. Unmanaged agents are kept apart, as
//     found at its death.
package server

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
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

// Trouble returns the code of why a server that is believed does not follow its document as it should: two machines
// beat as it, or what its executor says of itself. It returns "" when there is nothing of the kind, and for an executor
// that waits for the end of a critical section.
func Trouble(s *serverv1.Server) string {
	c := s.GetCondition()
	switch {
	case !Believed(s):
		return ""
	case s.GetDuplicate() != nil:
		return code.DuplicateIdentity
	case c.GetState() == serverv1.ExecutorState_EXECUTOR_STATE_BUSY:
		return ""
	case c.GetState() == serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED:
		return cmp.Or(c.GetCode(), code.ExecutorSuspended)
	}
	return c.GetCode()
}

// ClockText returns how far a clock is ahead, such as 2h ahead; behind when ahead is negative.
func ClockText(ahead time.Duration) string {
	far := ahead.Abs()
	text := far.Round(time.Second).String()
	switch {
	case far >= 48*time.Hour:
		text = fmt.Sprintf("%dd", far/(24*time.Hour))
	case far >= time.Minute:
		text = strings.TrimSuffix(far.Round(time.Minute).String(), "0s")
		text = strings.Replace(text, "h0m", "h", 1)
	}
	if ahead < 0 {
		return text + " behind"
	}
	return text + " ahead"
}
