// Package agent builds the commands of garrison agent.
package agent

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/regular"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/external"
	"github.com/garrison-fleet/garrison/services/operator/internal/record"
)

type agent = *agentv1.Agent

var table = listing.Listing[agent]{
	Name: func(a agent) string { return a.GetName() },
	Columns: append([]listing.Column[agent]{
		listing.Col("NAME", agent.GetName),
		listing.Col("KIND", func(a agent) string { return listing.Word(a.GetKind()) }),
		listing.Col("APP", agent.GetApplication),
		listing.Col("TIER", func(a agent) string { return fmt.Sprint(a.GetTier()) }).Numeric(),
		listing.Col("NEEDS", func(a agent) string { return strings.Join(a.GetDependencies(), ",") }),
		listing.Col("DESCRIPTION", agent.GetDescription),
		listing.Wide("METADATA", func(a agent) string { return listing.Pairs(a.GetMetadata()) }),
		listing.Wide("REPORTER", agent.GetReporter),
		listing.Wide("WANTED", func(a agent) string { return listing.Pairs(a.GetWanted()) }),
		listing.Wide("SCHEMA", func(a agent) string { return listing.OneLine(a.GetSchema()) }),
		listing.Wide("CREATED", func(a agent) string { return listing.Stamp(a.GetCreatedAt()) }),
	}, record.LastChange[agent]()...),
}

func agentFlags(f *pflag.FlagSet, said *record.Edits[agent], update bool) {
	record.EditVar(f, said, "app", "the `APPLICATION` of the agent; an empty value clears "+
		"it", cli.ReadText(cli.OrEmpty(cli.Name("application"))),
		func(a agent, v string) { a.Application = v })
	record.EditVar(f, said, "tier", "the `TIER`; on one server lower tiers are changed first", cli.ReadCount,
		func(a agent, v uint32) { a.Tier = v })
	var needs []string
	cli.NamesVar(f, &needs, "needs", cli.OrEmpty(cli.Name("agent")), "`AGENTS` that must be installed on the "+
		"server first; an empty value clears them")
	*said = append(*said, func(a agent) {
		if f.Changed("needs") {
			a.Dependencies = needs
		}
	})
	record.EditVar(f, said, "description", "a description, one `SENTENCE`", cli.ReadText(cli.AnyText),
		func(a agent, v string) { a.Description = v })
	record.EditVar(f, said, "reporter", "the `USER` who reports the instances of an agent of kind external",
		cli.ReadText(cli.Name("user")), func(a agent, v string) { a.Reporter = v })
	record.EditVar(f, said, "report-within", "how long a report about an agent of kind external counts, a `DURATION`; "+
		"1h by default", time.ParseDuration, func(a agent, v time.Duration) { a.ReportWithin = durationpb.New(v) })
	record.EditVar(f, said, "schema", "a JSON schema in `FILE` that the merged metadata of each instance must fit; an "+
		"empty value removes it", readSchema, func(a agent, v string) { a.Schema = v })
	record.EditVar(f, said, "want", external.WantHelp, external.ReadWanted,
		func(a agent, w external.Wanted) { w.Set(a) })
	if !update { // the kind never changes
		all := listing.Words(agentv1.Kind(0).Descriptor())
		kinds := strings.Join(all, ", ")
		record.EditVar(f, said, "kind", "the `KIND`: "+kinds+" (default daemon)", listing.ParseWord[agentv1.Kind],
			func(a agent, v agentv1.Kind) { a.Kind = v })
	}
}

// maxSchema is more than the registry accepts.
const maxSchema = 64 << 10

// readSchema returns what the file with a schema holds; nothing for an empty name. The registry checks it.
func readSchema(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := regular.OpenNamed(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxSchema))
	return string(text), err
}

// check refuses an agent of which versions are wanted in unknown environments, and says when no user reports it.
func check(ctx context.Context, env *cli.Env, was, now agent) error {
	if err := external.CheckWanted(ctx, env, was, now); err != nil {
		return err
	}
	if now.GetReporter() == "" || now.GetReporter() == was.GetReporter() {
		return nil
	}
	users, err := cli.All[*accessv1.ListUsersResponse](ctx, env, &accessv1.ListUsersRequest{})
	if err != nil {
		return nil // the registry decides about the agent alone
	}
	for _, u := range users.GetUsers() {
		if u.GetName() == now.GetReporter() {
			return nil
		}
	}
	env.Say("note: no user %s, who reports it, exists yet: garrison user create %[1]s --role reporter",
		now.GetReporter())
	return nil
}

// Commands returns the command agent with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return record.Commands(record.Noun[agent]{
		Env:         env,
		Word:        "agent",
		Unknown:     code.UnknownAgent,
		Command:     "agent",
		Example:     "beacon",
		Short:       "Define agents: the programs that run on servers.",
		Without:     "instances",
		Whose:       "its instances",
		Listing:     table,
		Blank:       func(name string) agent { return &agentv1.Agent{Name: name, Kind: agentv1.Kind_KIND_DAEMON} },
		SetMetadata: func(a agent, m map[string]string) { a.Metadata = m },
		Flags:       agentFlags,
		On:          func(string) string { return "all" },
		Check:       func(ctx context.Context, was, now agent) error { return check(ctx, env, was, now) },
	})
}
