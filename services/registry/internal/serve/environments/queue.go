package environments

import (
	"maps"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/defaults"
)

// NoteFacts receives the facts that were just folded.
func (d *Work) NoteFacts(facts []ledger.Fact) {
	for _, f := range facts {
		d.note(f)
	}
}

// note adds what a fact may make due.
func (d *Work) note(f ledger.Fact) {
	switch f.Body.(type) {
	case *serverv1.Enrolled, *serverv1.Changed, *serverv1.SysinfoSeen, *serverv1.AgentsFound, *serverv1.Reinstalled:
		d.queue.Add(f.Key)
	case *instancev1.Wanted, *instancev1.Gone: // what another agent needs has come, or what it conflicts with has gone
		if id, _, _ := strings.Cut(f.Key, "."); d.waits(id) {
			d.queue.Add(id)
		}
	case *environmentv1.DefaultSet, *environmentv1.DefaultUnset, *environmentv1.Changed:
		d.queue.AddGroup(f.Key)
	}
	switch f.Noun {
	case ledger.Image, ledger.Channel, ledger.Agent, ledger.Block:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.again = true
	}
}

// AddEverything adds every environment with defaults.
func (d *Work) AddEverything() { d.queue.AddGroup(d.environments()...) }

// environments returns the names of the environments with defaults.
func (d *Work) environments() (names []string) {
	d.records.Follower.Read(func() {
		for name, e := range d.records.View.Environments("") {
			if len(e.Defaults) > 0 {
				names = append(names, name)
			}
		}
	})
	return names
}

// Idle reports whether no server is due to be looked at.
func (d *Work) Idle() bool { return d.queue.Len() == 0 }

// waitEverywhere counts each server with defaults as one that waited: which ones did before this registry began is not
// known, and what was held must not come by a restart. A look removes those on which nothing waits.
func (d *Work) waitEverywhere() {
	var all []string
	for _, name := range d.environments() {
		all = append(all, d.records.Servers(name)...)
	}
	d.expect(all)
}

// takeWaiting adds the servers that wait, if something changed that may end it.
func (d *Work) takeWaiting() {
	d.mu.Lock()
	var waiting []string
	if d.again {
		waiting = slices.Collect(maps.Keys(d.waiting))
	}
	d.again = false
	d.mu.Unlock()
	if len(waiting) > 0 {
		d.queue.AddLater(waiting...)
	}
}

// waits reports whether a default waits on a server.
func (d *Work) waits(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting[id]
}

// expect counts servers as waiting while they are looked at, so that no fact of that time is missed. It returns those
// that waited before.
func (d *Work) expect(servers []string) (waited map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	waited = maps.Clone(d.waiting)
	for _, id := range servers {
		d.waiting[id] = true
	}
	return waited
}

// keepHeld notes which of some servers a default is held on.
func (d *Work) keepHeld(key heldKey, servers, held []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(held) == 0 && d.held[key] == nil {
		return
	}
	if d.held[key] == nil {
		d.held[key] = map[string]bool{}
		d.log.Warn().Str("environment", key.environment).Str(logs.Agent, key.agent).
			Msg("default held: it would reach too many servers at once")
	}
	for _, id := range servers {
		delete(d.held[key], id)
	}
	for _, id := range held {
		d.held[key][id] = true
	}
	if len(d.held[key]) == 0 {
		delete(d.held, key)
	}
}

// Held returns on how many servers a default is held in all, and on which of some.
func (d *Work) Held(environment, agent string, servers []string) (all int, some []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := d.held[heldKey{environment, agent}]
	for _, id := range servers {
		if held[id] {
			some = append(some, id)
		}
	}
	return len(held), some
}

// looked records on which servers a default waits.
func (d *Work) looked(servers []string, seen looks) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range servers {
		if !seen.waiting[id] {
			delete(d.waiting, id)
		}
		if delete(d.refused, id); seen.refused[id] {
			d.refused[id] = true
		}
	}
}

// Waits returns on how many servers a default waits.
func (d *Work) Waits() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting)
}

// WaitingOn returns the defaults that are due on some servers and cannot be installed there now, by the server's id;
// with the name of an agent, only its defaults. It must run inside Read.
func (d *Work) WaitingOn(servers []*serverv1.Server, agent string) map[string][]defaults.Waiting {
	search := defaults.Search{Reader: d.records.View, Only: agent, At: d.records.Now(), Held: d.Held}
	members := map[string][]*serverv1.Server{}
	for _, s := range servers {
		members[s.Environment] = append(members[s.Environment], s)
	}
	out := map[string][]defaults.Waiting{}
	for name, servers := range members {
		if e, ok := d.records.View.Environment(name); ok {
			maps.Copy(out, search.Waiting(e, servers))
		}
	}
	return out
}

// Refused returns the ids of the servers on which a default is due and could not be installed when they were last
// looked at, sorted. It is never nil.
func (d *Work) Refused() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := slices.AppendSeq(make([]string, 0, len(d.refused)), maps.Keys(d.refused))
	slices.Sort(out)
	return out
}
