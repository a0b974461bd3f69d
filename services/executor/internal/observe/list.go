package observe

import (
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// Found looks at every agent on the server, in the inventory or not, by name.
func (o *Observer) Found() (*reportv1.AgentsReport, error) { return o.FoundWith(o.Images.Whole) }

// Recently looks at the agents of the inventory with a recent look at the images' files, for what asks every few
// seconds. It takes what is unmanaged from a report: to look for it is to read every process of the machine.
func (o *Observer) Recently(reported []*reportv1.Found) ([]*reportv1.Found, error) {
	has, err := o.inventory()
	if err != nil {
		return nil, err
	}
	agents, err := o.agents(has, o.recently)
	if err != nil {
		return nil, err
	}
	var unmanaged []*reportv1.Found
	for _, f := range reported {
		if f.Trace != serverv1.Trace_TRACE_UNSPECIFIED {
			unmanaged = append(unmanaged, f)
		}
	}
	return o.list(agents, unmanaged)
}

// FoundWith does the same with a look of its own at images.
func (o *Observer) FoundWith(whole WholeFunc) (*reportv1.AgentsReport, error) {
	began := time.Now()
	before, err := o.inventory()
	if err != nil {
		return nil, err
	}
	agents, err := o.agents(before, whole)
	if err != nil {
		return nil, err
	}
	traces := o.traces(whole)
	after, err := o.inventory()
	if err != nil {
		return nil, err
	}
	r := report(o.unexplained(before, after, began, traces))
	r.Agents, err = o.list(agents, r.Agents)
	return r, err
}

// agents looks at the agents of an inventory.
func (o *Observer) agents(of inventory, whole WholeFunc) (agents []*reportv1.Found, err error) {
	ways, err := o.Images.Ways()
	for _, i := range of.instances {
		f := o.agent(i, of.open[i.Agent], whole)
		f.Kept = ways[i.Agent][:min(len(ways[i.Agent]), mostKept)]
		agents = append(agents, f)
	}
	return agents, err
}

// list returns agents and what is unmanaged, by name, with the agents whose files cannot be deleted yet.
func (o *Observer) list(agents, unmanaged []*reportv1.Found) ([]*reportv1.Found, error) {
	o.markBeside(agents, unmanaged)
	stuck, err := o.Trash.List(func(t *journal.Trash) bool { return t.Why != "" })
	all := append(withTrash(agents, stuck), unmanaged...)
	slices.SortStableFunc(all, func(a, b *reportv1.Found) int { return strings.Compare(a.Agent, b.Agent) })
	return all, err
}

// withTrash adds removed agents with files that are left. An installed agent keeps its own line.
func withTrash(found []*reportv1.Found, stuck []*journal.Trash) []*reportv1.Found {
	named := map[string]bool{}
	for _, f := range found {
		named[f.GetAgent()] = true
	}
	for _, t := range stuck {
		if !named[t.Agent] {
			named[t.Agent] = true
			found = append(found, &reportv1.Found{
				Agent:      t.Agent,
				InstanceId: t.InstanceID,
				Health:     instancev1.Health_HEALTH_ABSENT,
				Code:       code.FilesStay,
				Reason:     "it is removed, and its files cannot be deleted yet: " + t.Why,
			})
		}
	}
	return found
}
