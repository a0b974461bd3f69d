package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of faults of a round.
type Kind string

// The kinds of rounds.
const (
	Kills     Kind = "kills"     // processes of the control plane and executors are killed, one after another
	Pauses    Kind = "pauses"    // processes are stopped for some seconds, the bus among them
	Blackout  Kind = "blackout"  // everything is killed at once, agents excepted
	Snapshots Kind = "snapshots" // the control plane is stopped, and the services' snapshots are damaged
	Journals  Kind = "journals"  // executors are killed, and their journals are damaged or set back
	Agents    Kind = "agents"    // agents are killed and stopped
	Drift     Kind = "drift"     // files, links, images and configurations of agents are damaged by hand
	// the disk of the control plane or of a server is full for a while, also across a restart
	FullDisk Kind = "full-disk"
	ReadOnly Kind = "read-only" // the root of a server is read-only for a while, also across a restart
	Ports    Kind = "ports"     // the port of an agent that ended is held by another process for a while
	Strays   Kind = "strays"    // a file is written beside the program of an agent
	CutOffs  Kind = "cut-off"   // a version of an agent cuts its server off from the bus while it runs
	Clone    Kind = "clone"     // a server's root is copied, and the copy runs beside it
	Restore  Kind = "restore"   // an old copy of the control plane's data takes the place of the new one
	Mixed    Kind = "mixed"     // one of each of the first seven
)

// Kinds lists every kind of round, in the order in which an unlimited schedule takes them.
var Kinds = []Kind{
	Kills, Pauses, Blackout, Snapshots, Journals, Agents, Drift, FullDisk, ReadOnly, Ports, Strays, CutOffs, Clone,
	Restore, Mixed,
}

// ParseKinds reads a list with commas; empty means all.
func ParseKinds(list string) ([]Kind, error) {
	if list == "" {
		return Kinds, nil
	}
	var out []Kind
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(Kinds, Kind(name)) {
			return nil, fmt.Errorf("unknown kind of round %q; known are %v", name, Kinds)
		}
		out = append(out, Kind(name))
	}
	return out, nil
}

// Strike is one fault of a round.
type Strike struct {
	At   time.Duration // after the round's load began
	Kind Kind          // Kills to CutOffs
	For  time.Duration // how long what is paused, full, read-only or held stays so
	Pick uint64        // chooses the victim and the damage among those that there are
}

// Round is what happens in one round.
type Round struct {
	Number  int
	Kind    Kind
	Seed    uint64        // of the load
	Load    time.Duration // how long intents are published
	Strikes []Strike      // by time
}

// Schedule returns rounds that a seed leads to. Apart, the services run in processes of
// their own; only one process can be restored whole, so Restore is left out then.
func Schedule(seed uint64, rounds int, load time.Duration, kinds []Kind, apart bool) []Round {
	if apart {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return k == Restore })
	}
	if len(kinds) == 0 {
		return nil
	}
	random := rand.New(rand.NewPCG(seed, 1))
	var out []Round
	for n := range rounds {
		r := Round{Number: n + 1, Kind: kinds[n%len(kinds)], Seed: random.Uint64(), Load: load}
		r.Strikes = strikes(random, r.Kind, load)
		slices.SortFunc(r.Strikes, func(a, b Strike) int { return int(a.At - b.At) })
		out = append(out, r)
	}
	return out
}

// strikes draws the faults of a round.
func strikes(random *rand.Rand, kind Kind, load time.Duration) []Strike {
	one := func(k Kind) Strike {
		return Strike{
			Kind: k, Pick: random.Uint64(),
			At:  load/10 + time.Duration(random.Int64N(int64(load*7/10)+1)),
			For: time.Second + time.Duration(random.Int64N(int64(load/2)+1)),
		}
	}
	switch kind {
	case Clone, Restore: // these have a course of their own
		return nil
	case Mixed:
		var out []Strike
		for _, k := range []Kind{Kills, Pauses, Blackout, Snapshots, Journals, Agents, Drift} {
			out = append(out, one(k))
		}
		return out
	}
	var out []Strike
	times := map[Kind]int{
		Kills: 5, Pauses: 4, Blackout: 1, Snapshots: 1, Journals: 2, Agents: 4, Drift: 3, FullDisk: 1,
		ReadOnly: 1, Ports: 3, Strays: 2, CutOffs: 2,
	}
	for range times[kind] {
		out = append(out, one(kind))
	}
	return out
}
