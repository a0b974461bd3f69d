package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/metadata"
)

// configureRow is one server of a plan. A configuration comes with the version that is
// wanted; where another one runs, because that was undone, it is tried again.
type configureRow struct {
	Server  string            `json:"server"`
	Agent   string            `json:"agent"`
	Version string            `json:"version"` // that runs
	Wanted  string            `json:"wanted"`
	Own     map[string]string `json:"own"`
	Next    string            `json:"next,omitempty"`
	was     map[string]string // its own values before
}

var configureListing = listing[configureRow]{
	name: func(r configureRow) string { return r.Server + "/" + r.Agent },
	columns: []column[configureRow]{
		{title: "SERVER", value: func(_ view, r configureRow) string { return r.Server }},
		{title: "AGENT", value: func(_ view, r configureRow) string { return r.Agent }},
		{title: "RUNS", value: func(_ view, r configureRow) string { return r.Version }},
		{title: "WANTED", value: func(_ view, r configureRow) string { return r.Wanted }},
		{title: "OWN", value: func(_ view, r configureRow) string { return pairs(r.Own) }},
		{title: "NEXT", value: func(_ view, r configureRow) string { return r.Next }},
	},
}

// configureRows gives the servers that change, with their own values as they will be.
func (s *session) configureRows(ctx context.Context, ask *intentv1.Configure, look order) ([]configureRow, error) {
	rows := []configureRow{}
	if look.record.GetChanged() == 0 {
		return rows, nil
	}
	have, err := s.listInstances(ctx, &registryv1.ListInstancesRequest{Agent: ask.Agent})
	if err != nil {
		return nil, err
	}
	for _, r := range have {
		i := r.GetInstance()
		if _, changes := slices.BinarySearch(look.record.GetServerIds(), i.GetServerId()); !changes {
			continue
		}
		was := i.GetConfiguration().GetOwn()
		own := metadata.Merge(was, ask.Set)
		maps.DeleteFunc(own, func(k, _ string) bool { return slices.Contains(ask.Unset, k) })
		rows = append(rows, configureRow{
			Server: r.GetServerName(), Agent: i.GetAgent(), Version: i.GetObserved().GetVersion(), Wanted: i.GetWanted().GetVersion(),
			Own: own, Next: broughtBy(i), was: was,
		})
	}
	return rows, nil
}

// broughtBy says what comes with a configuration beside it.
func broughtBy(i *instancev1.Instance) string {
	wanted := i.GetWanted().GetVersion()
	switch {
	case i.GetState() == instancev1.State_STATE_FAILED && i.GetObserved().GetId() == i.GetWanted().GetId():
		return "tries again"
	case i.GetState() == instancev1.State_STATE_FAILED:
		return "tries " + wanted + " again"
	case i.GetObserved().GetId() != i.GetWanted().GetId():
		return "brings " + wanted
	}
	return ""
}

// elsewhere is a version that runs where another one is wanted.
type elsewhere struct{ agent, runs, wanted string }

// unknownLines say that more servers change than are told, and how to be able to go back.
func unknownLines(rows []configureRow, look order) []string {
	all := int(look.record.GetChanged())
	if len(rows) >= all {
		return nil
	}
	return []string{fmt.Sprintf("note: only %d of %s are told, so no line can undo this. To be able to, first: garrison instance list %s -o json > FILE, which keeps what each has; or do it in parts, with --on",
		len(rows), plural(all, "server"), look.agent)}
}

// avoidLines say how to keep what runs where a configuration would bring what did not stay there before.
func avoidLines(rows []configureRow) []string {
	servers := map[elsewhere][]string{}
	for _, r := range rows {
		if r.Next != "" && r.Version != r.Wanted {
			e := elsewhere{r.Agent, r.Version, r.Wanted}
			servers[e] = append(servers[e], r.Server)
		}
	}
	var out []string
	for e, on := range servers {
		keep := "garrison up " + e.agent + "@" + e.runs
		if e.runs == "" {
			keep = "garrison remove " + e.agent
		}
		out = append(out, fmt.Sprintf("%s is wanted on %s where %s runs, and this brings it; to keep what runs, first: %s %s",
			e.wanted, plural(len(on), "server"), dash(e.runs), keep, onServers(on, "garrison instance list "+e.agent)))
	}
	slices.Sort(out)
	return out
}

// undoConfigure gives the commands that set each changed value of the servers' own back
// as it was, one for each way in which they were.
func undoConfigure(ask *intentv1.Configure, rows []configureRow, o order) []string {
	if len(rows) < int(o.record.GetChanged()) {
		return []string{fmt.Sprintf("each of %s as it was, from a list kept before, or from the fact before intent %s in: garrison events --noun instance --id SERVER-ID -o json",
			plural(int(o.record.GetChanged()), "server"), o.id)}
	}
	servers := map[string][]string{} // by what sets them back
	for _, r := range rows {
		if args := configureArgs(backTo(ask, r.was)); args != "" {
			servers[args] = append(servers[args], r.Server)
		}
	}
	var out []string
	for args, on := range servers {
		command := "garrison configure " + ask.Agent + " " + args + " "
		if len(on) == len(rows) && o.record.GetAlready() == 0 {
			out = append(out, command+selectorArgs(ask.On)) // it selects no others that have the agent
		} else {
			out = append(out, command+onServers(on, "garrison task list --intent "+o.id+" -o wide"))
		}
	}
	if len(out) == 0 && len(rows) > 0 {
		out = []string{"record the values from before with garrison app, agent or env update, then garrison configure " + ask.Agent + " " + selectorArgs(ask.On)}
	}
	slices.Sort(out)
	return out
}

// backTo says which values make a server's own ones what they were before an intent.
func backTo(ask *intentv1.Configure, was map[string]string) *intentv1.Configure {
	back := &intentv1.Configure{Set: map[string]string{}}
	for k, v := range ask.Set {
		switch before, ok := was[k]; {
		case !ok:
			back.Unset = append(back.Unset, k)
		case before != v:
			back.Set[k] = before
		}
	}
	for _, k := range ask.Unset {
		if before, ok := was[k]; ok {
			back.Set[k] = before
		}
	}
	slices.Sort(back.Unset)
	return back
}

// neverSet gives the names that are to be taken away and that no server has as its own,
// as far as that is known.
func neverSet(ask *intentv1.Configure, rows []configureRow, o order) []string {
	if len(rows) < int(o.record.GetChanged()) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(ask.Unset), func(name string) bool {
		return slices.ContainsFunc(rows, func(r configureRow) bool { _, ok := r.was[name]; return ok })
	})
}
