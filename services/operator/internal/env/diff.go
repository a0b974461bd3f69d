package env

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/version"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// difference is one thing in which two environments differ.
type difference struct {
	Field  string `json:"field"`
	First  string `json:"first,omitempty"`
	Second string `json:"second,omitempty"`
}

func diffCommand(env *cli.Env, find find) *cobra.Command {
	return &cobra.Command{
		Use:     "diff ENVIRONMENT OTHER",
		Example: "  garrison env diff staging prod",
		Short:   "Show in what two environments differ; exit with 3 when they do.",
		Long: `Show in what two environments differ; exit with 3 when they do.

Compared are the channel and every other field but the name and the description, the metadata, the defaults, and for
each agent the versions that run, with the number of servers of each. An agent differs when the versions do; numbers
alone are no difference. Two secrets count as equal: only the control plane can compare them.`,
		Args: cli.Exactly("ENVIRONMENT", "OTHER"),
		RunE: func(c *cobra.Command, a []string) error {
			both := [2]side{}
			for i, name := range a {
				var err error
				if both[i].environment, err = find(c.Context(), name); err != nil {
					return err
				}
				if both[i].running, err = running(c.Context(), env, name); err != nil {
					return err
				}
			}
			return showDifferences(env, both[0], both[1])
		},
	}
}

func showDifferences(env *cli.Env, a, b side) error {
	whole := cli.Differences[difference]{
		First: a.environment.GetName(), Second: b.environment.GetName(), Differences: compare(a, b),
	}
	table := listing.Listing[difference]{
		Name: func(d difference) string { return d.Field },
		Columns: []listing.Column[difference]{
			listing.Col("FIELD", func(d difference) string { return d.Field }),
			listing.Col(strings.ToUpper(whole.First), func(d difference) string { return d.First }),
			listing.Col(strings.ToUpper(whole.Second), func(d difference) string { return d.Second }),
		},
	}
	return whole.Show(env, table, "environments %s and %s do not differ")
}

// side is one of two environments: its record, and how many servers run which version, by agent.
type side struct {
	environment environment
	running     map[string]map[string]uint64
}

// compare returns in what two environments differ: fields, defaults, and versions.
func compare(a, b side) []difference {
	var out []difference
	add := func(field, first, second string) {
		if first != second {
			out = append(out, difference{field, first, second})
		}
	}
	for _, f := range declare.Environments.Differences(a.environment, b.environment) {
		if f.Path != "description" {
			add(f.Path, fieldText(a.environment, f.Path, f.Before), fieldText(b.environment, f.Path, f.After))
		}
	}
	for _, agent := range union(a.environment.GetDefaults(), b.environment.GetDefaults()) {
		first, second := a.environment.GetDefaults()[agent], b.environment.GetDefaults()[agent]
		add("defaults."+agent, presence(first != nil), presence(second != nil))
		for _, f := range declare.Defaults.Differences(first, second) {
			add("defaults."+agent+"."+f.Path, metadata.Text(f.Before), metadata.Text(f.After))
		}
	}
	for _, agent := range union(a.running, b.running) {
		first, second := versions(a.running[agent]), versions(b.running[agent])
		if !slices.Equal(first, second) {
			add("versions."+agent, counted(first, a.running[agent]), counted(second, b.running[agent]))
		}
	}
	return out
}

// fieldText returns the text of a field as the page of the environment has it; value is that of declarations.
func fieldText(e environment, path, value string) string {
	switch path {
	case "windows":
		return windowsText(e.GetWindows())
	case "fetchWindows":
		return windowsText(e.GetFetchWindows())
	case "keep":
		return display.KeepText(e.GetKeep())
	}
	return metadata.Text(value)
}

func presence(is bool) string {
	if is {
		return "set"
	}
	return ""
}

func union[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// versions returns the versions that run, the oldest first.
func versions(running map[string]uint64) []string {
	return slices.SortedFunc(maps.Keys(running), func(a, b string) int {
		return cmp.Or(version.Compare(a, b), cmp.Compare(a, b))
	})
}

// counted returns versions with the number of servers that run each.
func counted(versions []string, running map[string]uint64) string {
	var out []string
	for _, v := range versions {
		out = append(out, fmt.Sprintf("%s on %d", cmp.Or(v, "no version"), running[v]))
	}
	return strings.Join(out, ", ")
}

// maxGroups is how many pairs of an agent and a version one answer counts.
const maxGroups = 1000

// running counts the servers of an environment by agent and version that runs.
func running(ctx context.Context, env *cli.Env, environment string) (map[string]map[string]uint64, error) {
	r, err := cli.Call[*registryv1.CountInstancesResponse](ctx, env, &registryv1.CountInstancesRequest{
		Filter: &registryv1.ListInstancesRequest{Environment: environment, WithExecutors: true},
		By:     []string{"agent", "version"}, Top: maxGroups,
	})
	if err != nil {
		return nil, err
	}
	if more := r.GetCounts().GetOtherGroups(); more > 0 {
		env.Say("note: environment %s has %d more versions of agents, which are not compared", environment, more)
	}
	out := map[string]map[string]uint64{}
	for _, g := range r.GetCounts().GetGroups() {
		agent, v := g.GetValues()[0], g.GetValues()[1]
		if out[agent] == nil {
			out[agent] = map[string]uint64{}
		}
		out[agent][v] += g.GetCount()
	}
	return out, nil
}
