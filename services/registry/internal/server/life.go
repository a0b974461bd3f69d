package server

import (
	"github.com/garrison-fleet/garrison/pkg/fsm"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// The places in a server's life, and the facts that move it.
const (
	unknown   = "unknown"
	invited   = "invited"
	alive     = "alive"
	dying     = "dying"
	dead      = "dead"
	forgotten = "forgotten"
)

// Life says which facts fit where.
var Life = fsm.Table[string, string]{
	unknown: {"invited": invited},
	invited: {"changed": invited, "enrolled": alive, "forgotten": forgotten},
	alive: {
		"changed": alive, "sysinfo-seen": alive, "agents-found": alive, "online": alive, "offline": alive,
		"quarantined": alive, "released": alive, "dying": dying, "dead": dead,
		"ahead": alive, "epoch-raised": alive, "place-confirmed": alive, "condition-changed": alive,
		"duplicated": alive, "duplicate-ended": alive,
	},
	dying: {
		"changed": dying, "sysinfo-seen": dying, "agents-found": dying, "online": dying, "offline": dying,
		"quarantined": dying, "released": dying, "dead": dead,
		"ahead": dying, "epoch-raised": dying, "place-confirmed": dying, "condition-changed": dying,
		"duplicated": dying, "duplicate-ended": dying,
	},
	dead:      {"uninstalled": dead, "clean-up-failed": dead, "forgotten": forgotten},
	forgotten: {},
}

// place gives where a server is; nil is one that nobody knows.
func place(s *serverv1.Server) string {
	switch s.GetLife() {
	case serverv1.Life_LIFE_INVITED:
		return invited
	case serverv1.Life_LIFE_ALIVE:
		return alive
	case serverv1.Life_LIFE_DYING:
		return dying
	case serverv1.Life_LIFE_DEAD:
		return dead
	}
	return unknown
}

var lives = map[string]serverv1.Life{
	invited: serverv1.Life_LIFE_INVITED,
	alive:   serverv1.Life_LIFE_ALIVE,
	dying:   serverv1.Life_LIFE_DYING,
	dead:    serverv1.Life_LIFE_DEAD,
}

// Managed says whether a server is under management: its beats and reports count.
func Managed(s *serverv1.Server) bool {
	return s.GetLife() == serverv1.Life_LIFE_ALIVE || s.GetLife() == serverv1.Life_LIFE_DYING
}

// Living reports whether a server is not dead, so that its name is taken.
func Living(s *serverv1.Server) bool { return s != nil && s.GetLife() != serverv1.Life_LIFE_DEAD }
