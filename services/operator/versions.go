package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// versionRow is one version of one kind of code, and how much of it there is.
type versionRow struct {
	Kind     string `json:"kind"` // client, service, executor or agent
	Name     string `json:"name"`
	Version  string `json:"version"`
	Count    int    `json:"count"`
	Position uint64 `json:"position,omitempty"`
	Misfits  uint64 `json:"misfits,omitempty"`
	Started  string `json:"startedAt,omitempty"`
	Trouble  string `json:"trouble,omitempty"`

	silent bool // it does not answer, so its version is not known
}

type versionList struct {
	Versions  []versionRow `json:"versions"`
	Different bool         `json:"different"`
	Misfits   []string     `json:"misfits,omitempty"` // which services miss which facts
}

var versionListing = listing[versionRow]{
	name: func(r versionRow) string { return r.Name },
	columns: []column[versionRow]{
		{title: "KIND", value: func(_ view, r versionRow) string { return r.Kind }},
		{title: "NAME", value: func(_ view, r versionRow) string { return r.Name }},
		{title: "VERSION", value: func(_ view, r versionRow) string { return r.Version }},
		{title: "COUNT", value: func(_ view, r versionRow) string { return fmt.Sprint(r.Count) }},
		{title: "POSITION", value: func(_ view, r versionRow) string { return count(r.Position) }},
		{title: "MISFITS", value: func(_ view, r versionRow) string { return count(r.Misfits) }},
		{title: "REASON", value: func(_ view, r versionRow) string { return r.Trouble }},
		{title: "STARTED", wide: true, value: func(_ view, r versionRow) string { return r.Started }},
	},
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
	c.Flags().BoolVar(&server, "server", false, "only services and executors")
	c.Flags().BoolVar(&agents, "agents", false, "only agents")
	c.Flags().BoolVar(&check, "check", false,
		"exit with 3 when versions differ within Garrison or within an agent, or a service has misfits")
	return c
}

func (s *session) versions(ctx context.Context, client, server, agents, check bool) error {
	whole := versionList{Versions: []versionRow{}}
	add := func(rows ...versionRow) { whole.Versions = append(whole.Versions, rows...) }
	var trouble error
	if client {
		add(versionRow{Kind: "client", Name: "garrison", Version: version.Version, Count: 1})
	}
	if server {
		for _, name := range topology.Services {
			row, err := s.serviceVersion(ctx, name)
			trouble = firstError(trouble, err)
			add(row)
		}
		rows, err := s.executorVersions(ctx)
		trouble = firstError(trouble, err)
		add(rows...)
	}
	if agents {
		rows, err := s.agentVersions(ctx)
		trouble = firstError(trouble, err)
		add(rows...)
	}
	if codeOf(trouble) == exitUsage || codeOf(trouble) == exitDenied || s.conn == nil && trouble != nil {
		return trouble // there is no bus to ask
	}
	whole.Different = differ(whole.Versions)
	for _, r := range whole.Versions {
		if r.Misfits > 0 {
			whole.Misfits = append(whole.Misfits, r.Name+": "+r.Trouble)
		}
	}
	if err := show(s, versionListing, whole, whole.Versions); err != nil {
		return firstError(trouble, err)
	}
	if trouble != nil || !check {
		return trouble
	}
	for _, m := range whole.Misfits {
		s.say("%s", m)
	}
	if whole.Different {
		s.say("versions differ")
	}
	if whole.Different || len(whole.Misfits) > 0 {
		return ended(exitDifferent)
	}
	return nil
}

// serviceVersion asks a service about itself. One that does not answer has a row that says so.
func (s *session) serviceVersion(ctx context.Context, name string) (versionRow, error) {
	about := apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService").Methods().ByName("About")
	r, err := callOn[*apiv1.AboutResponse](ctx, s, name, about, &apiv1.AboutRequest{})
	if err != nil {
		return versionRow{Kind: "service", Name: name, Trouble: "does not answer", silent: true}, err
	}
	return versionRow{
		Kind: "service", Name: name, Version: r.GetVersion(), Count: 1,
		Position: r.GetPosition(), Misfits: r.GetMisfits(), Started: r.GetStartedAt().AsTime().UTC().Format(time.RFC3339),
		Trouble: misfitting(r),
	}, nil
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

func (s *session) executorVersions(ctx context.Context) ([]versionRow, error) {
	r, err := collect(ctx, pageFlags{}, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListServersResponse, error) {
		return call[*registryv1.ListServersResponse](ctx, s, "ListServers", &registryv1.ListServersRequest{Page: p})
	})
	counts := map[[2]string]int{}
	for _, found := range r.GetServers() {
		if v := found.GetSysinfo().GetExecutorVersion(); v != "" {
			counts[[2]string{"executor", v}]++
		}
	}
	return versionRows("executor", counts), err
}

func (s *session) agentVersions(ctx context.Context) ([]versionRow, error) {
	rows, err := s.listInstances(ctx, &registryv1.ListInstancesRequest{})
	counts := map[[2]string]int{}
	for _, r := range rows {
		counts[[2]string{r.GetInstance().GetAgent(), has(r.GetInstance()).GetVersion()}]++
	}
	return versionRows("agent", counts), err
}

func versionRows(kind string, counts map[[2]string]int) []versionRow {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	var out []versionRow
	for _, k := range keys {
		out = append(out, versionRow{Kind: kind, Name: k[0], Version: k[1], Count: counts[k]})
	}
	return out
}

// differ reports whether Garrison's own code has more than one version, or any agent has.
func differ(rows []versionRow) bool {
	first := map[string]string{}
	for _, r := range rows {
		of := "garrison"
		if r.Kind == "agent" {
			of = "agent " + r.Name
		}
		if r.silent {
			continue
		}
		if have, ok := first[of]; ok && have != r.Version {
			return true
		}
		first[of] = r.Version
	}
	return false
}
