package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// The kinds of code.
const (
	kindClient   = "client"
	kindService  = "service"
	kindExecutor = "executor"
	kindAgent    = "agent"
)

// versionRow is one process of a service, or one version of other code and how much of it there is.
type versionRow struct {
	Kind     string `json:"kind"` // client, service, executor or agent
	Name     string `json:"name"`
	Version  string `json:"version"`          // what runs
	Wanted   string `json:"wanted,omitempty"` // what is wanted there; empty where nothing is
	Count    int    `json:"count"`
	Since    string `json:"since,omitempty"` // since when the longest of them is so
	Position uint64 `json:"position,omitempty"`
	Misfits  uint64 `json:"misfits,omitempty"`
	Started  string `json:"startedAt,omitempty"`
	Process  string `json:"process,omitempty"`
	Trouble  string `json:"trouble,omitempty"`
	since    time.Time
}

type versionList struct {
	Versions    []versionRow `json:"versions"`
	Different   bool         `json:"different"`
	Differences []string     `json:"differences,omitempty"`
}

var versionListing = listing[versionRow]{
	name: func(r versionRow) string { return r.Name },
	columns: []column[versionRow]{
		{title: "KIND", value: func(_ view, r versionRow) string { return r.Kind }},
		{title: "NAME", value: func(_ view, r versionRow) string { return r.Name }},
		{title: "VERSION", value: func(_ view, r versionRow) string { return r.Version }},
		{title: "WANTED", value: func(_ view, r versionRow) string { return r.Wanted }},
		{title: "COUNT", value: func(_ view, r versionRow) string { return fmt.Sprint(r.Count) }},
		{title: "SINCE", value: versionSince},
		{title: "POSITION", value: func(_ view, r versionRow) string { return count(r.Position) }},
		{title: "MISFITS", value: func(_ view, r versionRow) string { return count(r.Misfits) }},
		{title: "REASON", value: func(_ view, r versionRow) string { return r.Trouble }},
		{title: "STARTED", wide: true, value: func(_ view, r versionRow) string { return r.Started }},
		{title: "PROCESS", wide: true, value: func(_ view, r versionRow) string { return r.Process }},
	},
}

func versionSince(v view, r versionRow) string {
	if r.since.IsZero() || v.wide {
		return r.Since
	}
	return span(v.at.Sub(r.since))
}

func (s *session) versionsCommand() *cobra.Command {
	var client, server, agents, check bool
	c := &cobra.Command{
		Use: "versions", Short: "The kinds of code, apart: this client, services and executors, agents", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			all := !client && !server && !agents
			return s.versions(c.Context(), all || client, all || server, all || agents, check)
		},
	}
	c.Flags().BoolVar(&client, "client", false, "only this binary")
	c.Flags().BoolVar(&server, "server", false, "only services, each process of them, and executors")
	c.Flags().BoolVar(&agents, "agents", false, "only agents")
	c.Flags().BoolVar(&check, "check", false,
		"exit with 3 when services or this client differ, a service has misfits, or a server runs something else than is wanted there")
	return c
}

func (s *session) versions(ctx context.Context, client, server, agents, check bool) error {
	whole := versionList{Versions: []versionRow{}}
	var trouble error
	add := func(err error, rows ...versionRow) {
		whole.Versions, trouble = append(whole.Versions, rows...), firstError(trouble, err)
	}
	if client {
		add(nil, versionRow{Kind: kindClient, Name: "garrison", Version: version.Version, Count: 1})
	}
	if server {
		for _, name := range topology.Services {
			rows, err := s.processVersions(ctx, name)
			add(err, rows...)
		}
	}
	if server || agents {
		rows, err := s.fleetVersions(ctx)
		add(err, slices.DeleteFunc(rows, func(r versionRow) bool {
			return r.Kind == kindExecutor && !server || r.Kind == kindAgent && !agents
		})...)
	}
	if codeOf(trouble) == exitUsage || codeOf(trouble) == exitDenied || s.conn == nil && trouble != nil {
		return trouble // there is no bus to ask
	}
	whole.Differences = versionDifferences(whole.Versions)
	whole.Different = len(whole.Differences) > 0
	if err := show(s, versionListing, whole, whole.Versions); err != nil {
		return firstError(trouble, err)
	}
	if trouble != nil || !check || !whole.Different {
		return trouble
	}
	for _, d := range whole.Differences {
		s.say("differs: %s", d)
	}
	return ended(exitDifferent)
}

// processVersions asks every process of a service about itself. A service that does not answer has a row that says so.
func (s *session) processVersions(ctx context.Context, name string) ([]versionRow, error) {
	methods := apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService").Methods()
	r, err := callOn[*apiv1.ListProcessesResponse](ctx, s, name, methods.ByName("ListProcesses"), &apiv1.ListProcessesRequest{})
	all, trouble := r.GetProcesses(), ""
	if len(all) == 0 { // nothing answers, or a version that cannot count its processes
		one, e := callOn[*apiv1.AboutResponse](ctx, s, name, methods.ByName("About"), &apiv1.AboutRequest{})
		if e != nil {
			return []versionRow{{Kind: kindService, Name: name, Trouble: "does not answer"}}, firstError(err, e)
		}
		all, trouble = []*apiv1.AboutResponse{one}, "one process; this version cannot count them"
	}
	var out []versionRow
	for _, p := range all {
		out = append(out, versionRow{
			Kind: kindService, Name: name, Version: p.GetVersion(), Count: 1, Position: p.GetPosition(), Misfits: p.GetMisfits(),
			Started: p.GetStartedAt().AsTime().UTC().Format(time.RFC3339), Process: p.GetProcessId(),
			Trouble: cmp.Or(misfitting(p), trouble),
		})
	}
	return out, nil
}

// misfitting names the facts that a service cannot read, and those that did not fit its view.
func misfitting(r *apiv1.AboutResponse) string {
	var out []string
	for _, n := range r.GetUnread() {
		out = append(out, fmt.Sprintf("cannot read %d %s.%s from fact %d on, so it decides nothing that rests on %s",
			n.Count, n.Noun, n.Kind, n.First, n.Noun))
	}
	for _, n := range r.GetUnfit() {
		out = append(out, fmt.Sprintf("%d %s.%s did not fit, the last is fact %d", n.Count, n.Noun, n.Kind, n.Last))
	}
	if len(out) == 0 && r.GetMisfits() > 0 {
		return fmt.Sprintf("%d facts did not fit", r.GetMisfits()) // a service from before they were told apart
	}
	return strings.Join(out, "; ")
}

// fleetVersions counts what runs on servers and what is wanted there: executors and agents.
func (s *session) fleetVersions(ctx context.Context) ([]versionRow, error) {
	kinds, err := collect(ctx, pageFlags{}, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListAgentsResponse, error) {
		return call[*registryv1.ListAgentsResponse](ctx, s, "ListAgents", &registryv1.ListAgentsRequest{Page: p})
	})
	if err != nil {
		return nil, err
	}
	servers, err := collect(ctx, pageFlags{}, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListServersResponse, error) {
		return call[*registryv1.ListServersResponse](ctx, s, "ListServers", &registryv1.ListServersRequest{Page: p})
	})
	if err != nil {
		return nil, err
	}
	instances, err := s.listInstances(ctx, &registryv1.ListInstancesRequest{})
	return fleetRows(kinds.GetAgents(), servers.GetServers(), instances), err
}

// fleetRows counts the instances of executors and agents by what runs and what is wanted, and the executors that no
// instance manages by what their servers say.
func fleetRows(agents []*agentv1.Agent, servers []server, instances []instance) []versionRow {
	self := map[string]bool{}
	for _, a := range agents {
		self[a.GetName()] = a.GetKind() == agentv1.Kind_KIND_SELF
	}
	managed := map[string]bool{}
	t := versionTally{}
	for _, r := range instances {
		i := r.GetInstance()
		row := versionRow{Kind: kindAgent, Name: i.GetAgent(), Version: i.GetObserved().GetVersion(), Wanted: i.GetWanted().GetVersion()}
		if self[i.GetAgent()] {
			row.Kind, managed[i.GetServerId()] = kindExecutor, true
		}
		t.add(row, i.GetSince().AsTime())
	}
	for _, found := range servers {
		if v := found.GetSysinfo().GetExecutorVersion(); v != "" && !managed[found.GetId()] {
			t.add(versionRow{Kind: kindExecutor, Name: kindExecutor, Version: v}, time.Time{})
		}
	}
	return t.rows()
}
