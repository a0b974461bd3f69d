package busstate

import (
	"encoding/json"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Groups are the groups of replicas of an account, by their names: one for each stream and consumer.
type Groups map[string]*Group

// Group is how far the replicas of a stream or a consumer agree.
type Group struct {
	Led       bool   // by a server that answered
	Proposed  uint64 // the last operation that the leader has
	Committed uint64 // the last one that a majority has
	Replicas  map[string]Replica
}

// Replica is a replica that does not lead.
type Replica struct {
	Applied uint64 // the last operation that it holds
	Failed  bool   // it could not write one, and takes no further ones
}

// waits reports whether operations wait for a majority.
func (g *Group) waits() bool { return g != nil && g.Led && g.Proposed > g.Committed }

// behind reports whether a replica lacks operations that a majority has.
func (g *Group) behind(server string) bool {
	if g == nil || !g.Led {
		return false
	}
	r, ok := g.Replicas[server]
	return ok && r.Applied < g.Committed
}

// Read adds what a server answers about the groups of an account.
func (all Groups) Read(server, accountKey string, data []byte) error {
	var a map[string]map[string]struct {
		State     string           `json:"state"`
		Committed uint64           `json:"committed"`
		Applied   uint64           `json:"applied"`
		Proposed  uint64           `json:"pindex"`
		WALError  *json.RawMessage `json:"wal_error"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return fault.New(fault.Unavailable, "read how far replicas agree: %w", err)
	}
	for name, is := range a[accountKey] {
		g := all[name]
		if g == nil {
			g = &Group{Replicas: map[string]Replica{}}
			all[name] = g
		}
		if is.State == "LEADER" {
			g.Led, g.Proposed, g.Committed = true, is.Proposed, is.Committed
			continue
		}
		g.Replicas[server] = Replica{Applied: is.Applied, Failed: is.WALError != nil}
	}
	return nil
}

// Suspects are groups whose leader commits nothing, and replicas that apply nothing, by their groups. They are what two
// looks, some time apart, have in common.
type Suspects struct {
	first   Groups
	Stalled map[string]bool
	Stuck   map[string][]string
	Failed  map[string][]string // they could not write: known at once
}

// Suspects returns what may be wrong at a first look.
func (all Groups) Suspects() Suspects {
	s := Suspects{first: all, Stalled: map[string]bool{}, Stuck: map[string][]string{}, Failed: map[string][]string{}}
	for name, g := range all {
		if g.waits() {
			s.Stalled[name] = true
		}
		for server, r := range g.Replicas {
			if r.Failed {
				s.Failed[name] = append(s.Failed[name], server)
			} else if g.behind(server) {
				s.Stuck[name] = append(s.Stuck[name], server)
			}
		}
		slices.Sort(s.Failed[name])
		slices.Sort(s.Stuck[name])
	}
	return s
}

// Open reports whether another look may clear a suspect.
func (s Suspects) Open() bool {
	for _, servers := range s.Stuck {
		if len(servers) > 0 {
			return true
		}
	}
	return len(s.Stalled) > 0
}

// Clear drops what moved since the first look.
func (s Suspects) Clear(next Groups) {
	for name := range s.Stalled {
		if g := next[name]; !g.waits() || g.Committed != s.first[name].Committed {
			delete(s.Stalled, name)
		}
	}
	for name, servers := range s.Stuck {
		s.Stuck[name] = slices.DeleteFunc(servers, func(server string) bool {
			g := next[name]
			return !g.behind(server) || g.Replicas[server].Applied != s.first[name].Replicas[server].Applied
		})
	}
}
