package rollout

import (
	"context"
	"slices"

	"github.com/spf13/pflag"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// configured are the agents whose configuration a rollout changes, and how.
type configured struct {
	agents []string
	values cli.Values
}

func (q *configured) add(flags *pflag.FlagSet) {
	cli.NamesVar(flags, &q.agents, "configure", cli.Name("agent"), "bring the configuration of this `AGENT`: what is "+
		"recorded by now and, with --set or --unset, own values of the servers; no version moves; repeatable")
	q.values.Add(flags, "the agent of --configure on the selected servers only")
	q.values.AddChanges(flags, "the agent of --configure on the selected servers only")
}

// steps returns one step for each agent to configure. Values are for one agent, because two agents rarely have the
// same ones and a mistake would reach both.
func (q *configured) steps(ctx context.Context, env *cli.Env) ([]*intentv1.Step, error) {
	own, err := q.values.Change(ctx, env)
	if err != nil {
		return nil, err
	}
	given := len(own.Set)+len(own.Unset) > 0 || own.Replace
	switch {
	case given && len(q.agents) == 0:
		return nil, cli.Usage("--set and --unset need the agent that they are for. Try: --configure AGENT")
	case given && len(q.agents) > 1:
		return nil, cli.Usage("--set and --unset are for one agent, and --configure names %d. Try: a rollout for each",
			len(q.agents))
	}
	var steps []*intentv1.Step
	for _, agent := range slices.Compact(slices.Sorted(slices.Values(q.agents))) {
		steps = append(steps, &intentv1.Step{Change: &intentv1.Step_Configure{Configure: &intentv1.Configure{
			Agent: agent, Set: own.Set, Unset: own.Unset, Replace: own.Replace,
		}}})
	}
	return steps, nil
}
