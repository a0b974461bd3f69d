// Package versions builds garrison versions, which compares the versions of the client, services, executors and agents.
package versions

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Kinds of programs with a version.
const (
	kindClient   = "client"
	kindService  = "service"
	kindExecutor = "executor"
	kindAgent    = "agent"
)

// row is one process of a service, or one version of another program with the number of its installations.
type row struct {
	Kind     string `json:"kind"` // client, service, executor or agent
	Name     string `json:"name"`
	Version  string `json:"version"`          // the version that runs
	Wanted   string `json:"wanted,omitempty"` // the wanted version, or empty
	Count    int    `json:"count"`
	Since    string `json:"since,omitempty"` // the earliest time since which one of them is in this state
	Position uint64 `json:"position,omitempty"`
	Misfits  uint64 `json:"misfits,omitempty"`
	Started  string `json:"startedAt,omitempty"`
	Process  string `json:"process,omitempty"`
	Trouble  string `json:"trouble,omitempty"`
	since    time.Time
}

type rows struct {
	Versions    []row    `json:"versions"`
	Different   bool     `json:"different"`
	Differences []string `json:"differences,omitempty"`
}

var table = listing.Listing[row]{
	Name: func(r row) string { return r.Name },
	Columns: []listing.Column[row]{
		listing.Col("KIND", func(r row) string { return r.Kind }),
		listing.Col("NAME", func(r row) string { return r.Name }),
		listing.Col("VERSION", func(r row) string { return r.Version }),
		listing.Col("WANTED", func(r row) string { return r.Wanted }),
		listing.Col("COUNT", func(r row) string { return fmt.Sprint(r.Count) }).Numeric(),
		{Title: "SINCE", Value: versionSince},
		listing.Col("POSITION", func(r row) string { return listing.Count(r.Position) }).Numeric(),
		listing.Col("MISFITS", func(r row) string { return listing.Count(r.Misfits) }).Numeric(),
		listing.Col("REASON", func(r row) string { return r.Trouble }),
		listing.Wide("STARTED", func(r row) string { return r.Started }),
		listing.Wide("PROCESS", func(r row) string { return r.Process }),
	},
}

func versionSince(v listing.View, r row) string {
	if r.since.IsZero() || v.Wide {
		return r.Since
	}
	return listing.Span(v.At.Sub(r.since))
}

// Command returns the command versions.
func Command(env *cli.Env) *cobra.Command {
	var client, server, agents, check bool
	c := &cobra.Command{
		Use: "versions", Aliases: []string{"version"},
		Example: "  garrison versions --server --check",
		Short:   "Show the versions of the client, services, executors and agents.", Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			all := !client && !server && !agents
			return show(c.Context(), env, all || client, all || server, all || agents, check)
		},
	}
	c.Flags().BoolVar(&client, "client", false, "only this binary")
	c.Flags().BoolVar(&server, "server", false, "only executors and services, with a row for each process")
	c.Flags().BoolVar(&agents, "agents", false, "only agents")
	c.Flags().BoolVar(&check, "check", false,
		"exit with 3 if services or this client differ, an executor is newer, a service has misfits, or a server does "+
			"not run the wanted version")
	return c
}

func show(ctx context.Context, env *cli.Env, client, server, agents, check bool) error {
	whole := rows{Versions: []row{}}
	var trouble error
	add := func(err error, rows ...row) {
		whole.Versions, trouble = append(whole.Versions, rows...), cli.FirstError(trouble, err)
	}
	if client {
		add(nil, row{Kind: kindClient, Name: "garrison", Version: version.Version, Count: 1})
	}
	if server {
		for _, name := range topology.Services {
			rows, err := processVersions(ctx, env, name)
			add(err, rows...)
		}
	}
	if server || agents {
		rows, err := fleetVersions(ctx, env)
		add(err, slices.DeleteFunc(rows, func(r row) bool {
			return r.Kind == kindExecutor && !server || r.Kind == kindAgent && !agents
		})...)
	}
	if failed := cli.CodeOf(trouble); failed == cli.ExitUsage || failed == cli.ExitDenied ||
		!env.Connected() && trouble != nil {
		return trouble // no connection to the bus
	}
	return finish(env, whole, trouble, check)
}

// finish prints the rows; with check, differences end the command with ExitDifferent.
func finish(env *cli.Env, whole rows, trouble error, check bool) error {
	whole.Differences = versionDifferences(whole.Versions)
	whole.Different = len(whole.Differences) > 0
	if err := output.Show(env.Output, table, whole, whole.Versions); err != nil {
		return cli.FirstError(trouble, err)
	}
	if trouble != nil || !check || !whole.Different {
		return trouble
	}
	for _, d := range whole.Differences {
		env.Say("differs: %s", d)
	}
	return cli.Ended(cli.ExitDifferent)
}

// processVersions returns a row for each process of a service. A service that does not answer has a row that says so.
func processVersions(ctx context.Context, env *cli.Env, name string) ([]row, error) {
	r, err := cli.CallService[*apiv1.ListProcessesResponse](ctx, env, name, &apiv1.ListProcessesRequest{})
	all, trouble := r.GetProcesses(), ""
	if len(all) == 0 { // no answer, or a version that cannot list its processes
		one, e := cli.CallService[*apiv1.AboutResponse](ctx, env, name, &apiv1.AboutRequest{})
		if e != nil {
			return []row{{Kind: kindService, Name: name, Trouble: "does not answer"}}, cli.FirstError(err, e)
		}
		all, trouble = []*apiv1.AboutResponse{one}, "one process; this version cannot list the others"
	}
	var out []row
	for _, p := range all {
		out = append(out, row{
			Kind:     kindService,
			Name:     name,
			Version:  p.GetVersion(),
			Count:    1,
			Position: p.GetPosition(),
			Misfits:  p.GetMisfits(),
			Started:  p.GetStartedAt().AsTime().UTC().Format(time.RFC3339), Process: p.GetProcessId(),
			Trouble: cmp.Or(misfitting(p), trouble),
		})
	}
	return out, nil
}

// misfitting describes the facts that a service cannot decode, and those that did not fit its view.
func misfitting(r *apiv1.AboutResponse) string {
	var out []string
	for _, n := range r.GetUnread() {
		writer := ""
		if n.Writer != "" {
			writer = ", recorded by version " + n.Writer
		}
		out = append(out, fmt.Sprintf("cannot decode all of %d %s.%s from fact %d on (%s%s), so it refuses decisions "+
			"that depend on %s", n.Count, n.Noun, n.Kind, n.First, n.Unknown, writer, n.Noun))
	}
	for _, n := range r.GetUnfit() {
		out = append(out, fmt.Sprintf("%d %s.%s did not fit, the last is fact %d", n.Count, n.Noun, n.Kind, n.Last))
	}
	if len(out) == 0 && r.GetMisfits() > 0 {
		return fmt.Sprintf("%d facts did not fit", r.GetMisfits()) // an older service, which reports only their number
	}
	return strings.Join(out, "; ")
}
