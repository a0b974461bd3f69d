package environments

import (
	"maps"
	"slices"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/defaults"
)

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
