package intent

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// intentVerbs are the verbs of --verb.
var intentVerbs = func() []string {
	var out []string
	fields := (&intentv1.Intent{}).ProtoReflect().Descriptor().Oneofs().ByName("ask").Fields()
	for i := range fields.Len() {
		out = append(out, string(fields.Get(i).Name()))
	}
	return out
}()

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	var since time.Time
	q := &registryv1.ListIntentsRequest{}
	c := &cobra.Command{
		Use:     "list",
		Example: "  garrison intent list --actor ann --since 24h",
		Short:   "List intents, the newest first.", Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if !since.IsZero() {
				q.Since = timestamppb.New(since)
			}
			return list(c.Context(), env, page, q)
		},
	}
	page.Add(c, 100)
	c.Flags().BoolVar(&q.Derived, "derived", false, "also the parts of rollouts, each an intent of its own")
	cli.TextVar(c.Flags(), &q.Actor, "actor", cli.NotEmpty("actor"), "only intents of this `ACTOR`")
	cli.TextVar(c.Flags(), &q.Verb, "verb", cli.OneOf("verb", intentVerbs),
		"only with this `VERB`: "+strings.Join(intentVerbs, ", "))
	cli.WordVar(c.Flags(), &q.State, "state", "only those in this `STATE`")
	c.Flags().Var(cli.ValueOf(&since, cli.LookbackReader(env.Now), func(time.Time) string { return "" }), "since",
		"only intents decided since a `TIME` (RFC 3339, or a duration such as 10m or 2h)")
	return c
}

func list(ctx context.Context, env *cli.Env, page cli.PageFlags, q *registryv1.ListIntentsRequest) error {
	whole, err := cli.Collect(ctx, page, cli.Ask[*registryv1.ListIntentsResponse](env, q))
	if err != nil {
		return err
	}
	became := outcomes(ctx, env, whole.GetIntents())
	table := display.RecordsWith(func(r display.Record) string { return became[r.GetId()] })
	if err := output.Show(env.Output, table, whole, whole.GetIntents()); err != nil {
		return err
	}
	cli.SayMore(env, whole)
	if n := whole.GetKept(); n > 0 && whole.GetNextCursor() == "" {
		env.Say("the last %d intents are kept; older ones are in the ledger: garrison events --noun intent", n)
	}
	return nil
}

// outcomesWithin bounds how long a list waits for outcomes, and outcomesAtOnce is how many one request asks for.
const outcomesWithin, outcomesAtOnce = 2 * time.Second, 100

// rollouts returns the states of the rollouts among intents, by id; nothing for one that is no longer kept.
func rollouts(ctx context.Context, env *cli.Env, all []display.Record) map[string]string {
	out := map[string]string{}
	if !slices.ContainsFunc(all, func(r display.Record) bool { return r.GetIntent().GetRollout() != nil }) {
		return out
	}
	kept, err := cli.All[*registryv1.ListRolloutsResponse](ctx, env, &registryv1.ListRolloutsRequest{})
	if err != nil {
		return out // the list is of use without them
	}
	for _, r := range kept.GetRollouts() {
		out[r.GetId()] = listing.Word(r.GetState())
	}
	return out
}

// outcomes returns what became of the changes of accepted intents, and of rollouts, by id.
func outcomes(ctx context.Context, env *cli.Env, all []display.Record) map[string]string {
	asking, cancel := context.WithTimeout(ctx, outcomesWithin)
	defer cancel()
	out := rollouts(asking, env, all)
	var ids []string
	for _, r := range all {
		if r.GetChanged() > 0 && !r.GetIntent().GetDryRun() && r.GetIntent().GetRollout() == nil {
			ids = append(ids, r.GetId())
			out[r.GetId()] = "unknown" // the list is of use without it
		}
	}
	for some := range slices.Chunk(ids, outcomesAtOnce) {
		p, err := cli.Call[*dispatcherv1.GetIntentProgressResponse](asking, env,
			&dispatcherv1.GetIntentProgressRequest{IntentIds: some, Rows: 1})
		if err != nil {
			env.Say("the outcomes are unknown: %v", err)
			break
		}
		for n, one := range p.GetIntents() {
			if one.GetRefusal() == nil {
				out[some[n]] = display.OutcomeText(one.GetCounts())
			} else {
				out[some[n]] = "no longer counted"
			}
		}
	}
	return out
}
