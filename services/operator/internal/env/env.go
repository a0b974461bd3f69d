// Package env builds the commands of garrison env.
package env

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	envnoun "github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/window"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/overview"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/record"
)

type environment = *environmentv1.Environment

var table = listing.Listing[environment]{
	Name: func(e environment) string { return e.GetName() },
	Columns: append([]listing.Column[environment]{
		listing.Col("NAME", environment.GetName),
		{Title: "STATE", Value: func(v listing.View, e environment) string { return window.At(e, v.At).Word() }},
		listing.Col("CHANNEL", environment.GetChannel),
		listing.Col("METADATA", func(e environment) string { return listing.Pairs(e.GetMetadata()) }),
		listing.Col("DESCRIPTION", environment.GetDescription),
		listing.Wide("DRIFT", driftText),
		listing.Wide("DEFAULTS", func(e environment) string {
			return strings.Join(slices.Sorted(maps.Keys(e.GetDefaults())), ",")
		}),
		listing.Wide("CREATED", func(e environment) string { return listing.Stamp(e.GetCreatedAt()) }),
	}, record.LastChange[environment]()...),
}

func environmentFlags(f *pflag.FlagSet, said *record.Edits[environment], update bool) {
	record.EditVar(f, said, "description", "a description, one `SENTENCE`", cli.ReadText(cli.AnyText),
		func(e environment, v string) { e.Description = v })
	named, help := cli.Name("channel"), "the `CHANNEL` to take versions from when none is named"
	if update {
		named, help = cli.OrEmpty(named), help+"; an empty value selects the default channel"
	}
	record.EditVar(f, said, "drift", "what is done about agents that something else than a task changed on a server: "+
		"`POLICY` "+strings.Join(listing.Words(environmentv1.DriftPolicy(0).Descriptor()), ", "),
		listing.ParseWord[environmentv1.DriftPolicy],
		func(e environment, v environmentv1.DriftPolicy) { e.Drift = v })
	record.EditVar(f, said, "drift-brake",
		"heal nothing while more than `PERCENT` of the online servers drift: 1 to 100, where 100 never brakes; "+
			"20 without it",
		cli.NumberReader[uint32](cli.Percentage, 100), func(e environment, v uint32) { e.DriftBrake = v })
	record.EditVar(f, said, "busy-limit", "how long critical sections on a server defer a change at most, "+
		"a `DURATION` from 1s to 168h; 1h without it", time.ParseDuration,
		func(e environment, v time.Duration) { e.BusyLimit = durationpb.New(v) })
	record.EditVar(f, said, "channel", help, cli.ReadText(named), func(e environment, v string) { e.Channel = v })
	timesFlags(f, said)
}

// driftText describes what is done about drift in an environment.
func driftText(e environment) string {
	return display.Drift(&registryv1.EnvironmentDrift{
		Policy: envnoun.DriftPolicy(e), BrakePercent: envnoun.DriftBrake(e), Braked: e.GetBraked(),
	})
}

// noun describes environments.
func noun(env *cli.Env) record.Noun[environment] {
	return record.Noun[environment]{
		Env:         env,
		Word:        "environment",
		Unknown:     code.UnknownEnvironment,
		Command:     "env",
		Example:     "prod",
		Short:       "Group servers into environments.",
		Without:     "servers",
		Whose:       "every agent on its servers",
		Listing:     table,
		Blank:       func(name string) environment { return &environmentv1.Environment{Name: name} },
		SetMetadata: func(e environment, m map[string]string) { e.Metadata = m },
		Flags:       environmentFlags,
		On:          func(name string) string { return "env=" + name },
		Help:        timesHelp,
		Updated: func(ctx context.Context, was, now environment) {
			if display.KeepText(was.GetKeep()) == display.KeepText(now.GetKeep()) {
				return
			}
			sayImmovable(ctx, env, now)
		},
		More: func(ctx context.Context, e environment) ([][2]string, error) {
			servers, err := showServers(ctx, env, e)
			if err != nil {
				return nil, err
			}
			pairs, err := showDefaults(ctx, env, e)
			return append(append(servers, showTimes(e)...), pairs...), err
		},
	}
}

// Commands returns the command env with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	n := noun(env)
	c := record.Commands(n)
	c.AddCommand(defaultCommand(env, n.Find, n.All), diffCommand(env, n.Find))
	return c
}

// serversShown is how many servers of an environment are named.
const serversShown = 20

// showServers names the servers of an environment that are not dead, and how many more there are.
func showServers(ctx context.Context, env *cli.Env, e environment) ([][2]string, error) {
	filter := &registryv1.ListServersRequest{Environment: e.GetName()}
	counted, err := cli.Call[*registryv1.CountServersResponse](ctx, env,
		&registryv1.CountServersRequest{Filter: filter})
	if err != nil {
		return nil, err
	}
	listed, err := cli.Call[*registryv1.ListServersResponse](ctx, env, &registryv1.ListServersRequest{
		Environment: e.GetName(), Page: &apiv1.Page{Limit: serversShown},
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range listed.GetServers() {
		names = append(names, s.GetName())
	}
	total := int(counted.GetCounts().GetTotal())
	text := ""
	if total > 0 {
		text = fmt.Sprintf("%d: %s", total, strings.Join(names, ", "))
	}
	if total > len(names) {
		text += fmt.Sprintf(" and %d more\ngarrison server list --env %s", total-len(names), e.GetName())
	}
	return [][2]string{{"SERVERS", text}}, nil
}

// sayImmovable names keep budgets that let no working server change. They are recorded without the note, too.
func sayImmovable(ctx context.Context, env *cli.Env, e environment) {
	c, err := env.Client(ctx)
	if err != nil {
		return
	}
	notes, _ := overview.Immovable(ctx, c, e)
	for _, text := range notes {
		env.Say("note: %s", text)
	}
}
