// Package complete adds the completion of names and values: servers, agents, environments, channels, applications, the
// ids of intents and the words of flags.
package complete

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// within bounds how long a shell waits for names.
const within = 10 * time.Second

// newestIntents is how many intents are offered.
const newestIntents = 200

// names returns the names of a noun; only some when there are very many.
type names func(ctx context.Context, env *cli.Env) ([]string, error)

// known are the nouns whose names are completed, by the word that stands for them in a command's usage and in flags.
var known = map[string]names{
	"SERVER":      listed[*registryv1.ListServersResponse](&registryv1.ListServersRequest{}),
	"AGENT":       listed[*registryv1.ListRecordsResponse](record.List(ledger.Agent)),
	"ENVIRONMENT": listed[*registryv1.ListRecordsResponse](record.List(ledger.Environment)),
	"APPLICATION": listed[*registryv1.ListRecordsResponse](record.List(ledger.Application)),
	"CHANNEL":     listed[*catalogv1.ListChannelsResponse](&catalogv1.ListChannelsRequest{}),
	"INTENT":      intents,
}

// ofFlag is the noun of a flag whose placeholder does not name it.
var ofFlag = map[string]string{"on": "SERVER", "not": "SERVER", "env": "ENVIRONMENT", "app": "APPLICATION"}

// ofNoun is the noun of NAME in the usage of a group's verbs.
var ofNoun = map[string]string{
	"server": "SERVER", "agent": "AGENT", "env": "ENVIRONMENT", "app": "APPLICATION", "channel": "CHANNEL",
}

// named is a row with a name.
type named interface{ GetName() string }

// listed returns the names of the rows in the first part of a list.
func listed[R proto.Message](request proto.Message) names {
	return func(ctx context.Context, env *cli.Env) (out []string, err error) {
		r, err := cli.Ask[R](env, proto.Clone(request))(ctx, &apiv1.Page{Limit: cli.LargestPart})
		if err != nil {
			return nil, err
		}
		for _, row := range output.RowsOf[proto.Message](r) {
			if n, ok := row.(named); ok && n.GetName() != "" {
				out = append(out, n.GetName())
			}
		}
		return out, nil
	}
}

// intents returns the ids of the newest intents, each with what a shell shows beside it.
func intents(ctx context.Context, env *cli.Env) (out []string, err error) {
	r, err := cli.Call[*registryv1.ListIntentsResponse](ctx, env,
		&registryv1.ListIntentsRequest{Page: &apiv1.Page{Limit: newestIntents}})
	for _, i := range r.GetIntents() {
		out = append(out, cobra.CompletionWithDesc(i.GetId(), fmt.Sprintf("%s, by %s at %s",
			display.BriefText(i.GetIntent()), i.GetActor(), listing.Stamp(i.GetDecidedAt()))))
	}
	return out, err
}

// Add adds completion to a command and to those below it.
func Add(env *cli.Env, c *cobra.Command) {
	for _, sub := range c.Commands() {
		Add(env, sub)
	}
	if c.ValidArgsFunction == nil && !c.HasSubCommands() {
		c.ValidArgsFunction = func(c *cobra.Command, have []string, _ string) ([]string, cobra.ShellCompDirective) {
			return complete(c, env, nounAt(c, len(have)))
		}
	}
	add := func(f *pflag.Flag) { addFlag(env, c, f) }
	c.Flags().VisitAll(add)
	c.PersistentFlags().VisitAll(add)
}

// addFlag adds completion to a flag whose values are known, or are names.
func addFlag(env *cli.Env, c *cobra.Command, f *pflag.Flag) {
	placeholder, _ := pflag.UnquoteUsage(f)
	noun := ofFlag[f.Name]
	if noun == "" {
		noun = placeholder
	}
	words := cli.WordsOf(f.Value)
	if known[noun] == nil && len(words) == 0 {
		return
	}
	_ = c.RegisterFlagCompletionFunc(f.Name, // the only error is that it has one
		func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(words) > 0 {
				return words, cobra.ShellCompDirectiveNoFileComp
			}
			return complete(c, env, noun)
		})
}

// nounAt returns the noun of an argument by its place in the usage.
func nounAt(c *cobra.Command, n int) string {
	words := strings.Fields(c.Use)[1:]
	if n >= len(words) {
		if len(words) == 0 || !strings.HasSuffix(words[len(words)-1], "…") {
			return ""
		}
		n = len(words) - 1
	}
	word := strings.Trim(words[n], "[]…")
	word, _, _ = strings.Cut(strings.ReplaceAll(word, "[", "|"), "|")
	word, _, _ = strings.Cut(word, "@")
	if word == "NAME" && c.HasParent() && c.Name() != "create" {
		word = ofNoun[c.Parent().Name()]
	}
	return word
}

// complete returns the names of a noun. A shell prints no errors, so without an answer there are no names.
func complete(c *cobra.Command, env *cli.Env, noun string) ([]string, cobra.ShellCompDirective) {
	of := known[noun]
	if of == nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	found, err := of(ctx, env)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}
