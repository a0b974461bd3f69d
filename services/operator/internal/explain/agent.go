package explain

import (
	"context"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// examples is how many differences of an agent are read; the others are counted.
const examples = 1000

// explainAgent prints where an agent runs, in which versions, its defaults, and what is wrong with it: a row for each
// cause, with an example.
func explainAgent(ctx context.Context, env *cli.Env, agent *agentv1.Agent) error {
	var counts *registryv1.Counts
	var defaults []display.Default
	var holds []display.Hold
	var blocks []display.Block
	var check *registryv1.CheckFleetResponse
	g, asked := errgroup.WithContext(ctx)
	g.Go(func() error {
		r, err := cli.Call[*registryv1.CountInstancesResponse](asked, env, &registryv1.CountInstancesRequest{
			Filter: &registryv1.ListInstancesRequest{
				Agent: agent.GetName(), WithExternal: true, WithExecutors: agent.GetKind() == agentv1.Kind_KIND_SELF,
			},
			By: []string{"version"}, Top: versionsExplained,
		})
		counts = r.GetCounts()
		return err
	})
	g.Go(func() error {
		r, err := cli.Call[*registryv1.ListDefaultsResponse](asked, env,
			&registryv1.ListDefaultsRequest{Agent: agent.GetName()})
		defaults = r.GetDefaults()
		return err
	})
	g.Go(func() (err error) {
		check, err = fleet.Compare(asked, env, &registryv1.CheckFleetRequest{Agent: agent.GetName()}, examples)
		return err
	})
	g.Go(func() (err error) {
		holds, err = recordsOf[display.Hold](asked, env, ledger.Hold, agent.GetName())
		return err
	})
	g.Go(func() (err error) {
		blocks, err = recordsOf[display.Block](asked, env, ledger.Block, agent.GetName())
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	rows := []display.Explanation{display.ExplainAgent(agent, counts)}
	rows = append(rows, display.ExplainVersions(agent.GetName(), counts)...)
	for _, d := range defaults {
		rows = append(rows, display.ExplainAgentDefault(d))
	}
	for _, h := range holds {
		rows = append(rows, display.ExplainHold(agent.GetName(), h))
	}
	for _, b := range blocks {
		rows = append(rows, display.ExplainBlock(b))
	}
	rows = append(rows, display.ExplainCauses(agent.GetName(), check)...)
	return output.Show(env.Output, display.Explanations, display.ExplanationList{Explained: rows}, rows)
}

// recordsOf returns the records of a noun that concern an agent.
func recordsOf[T proto.Message](ctx context.Context, env *cli.Env, noun ledger.Noun, agent string) ([]T, error) {
	q := record.List(noun)
	q.Agent = agent
	return cli.Records[T](ctx, env, q)
}

// versionsExplained is how many versions of an agent have a row.
const versionsExplained = 10
