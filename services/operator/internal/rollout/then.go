package rollout

import (
	"context"

	"github.com/spf13/pflag"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// thenFlags say what is recorded for servers that come later, once every wave passed.
type thenFlags struct{ defaults, channels []string }

func (f *thenFlags) add(flags *pflag.FlagSet) {
	cli.NamesVar(flags, &f.defaults, "then-default", cli.Name("environment"), "once every wave passed, make the "+
		"agents defaults of this `ENVIRONMENT`, which reach all servers in it; until then new servers get what they "+
		"get now; repeatable")
	cli.NamesVar(flags, &f.channels, "then-promote", cli.Name("channel"), "once every wave passed, have this "+
		"`CHANNEL` offer the images that the rollout brought; repeatable")
}

// check refuses flags that the agents of the rollout contradict.
func (f *thenFlags) check(every, remove bool) error {
	if (every || remove) && len(f.defaults) > 0 || remove && len(f.channels) > 0 {
		return cli.Usage("--then-default and --then-promote are for agents that are named and not removed")
	}
	return nil
}

// parse returns what is recorded in the end. A default that is there keeps its values.
func (f *thenFlags) parse(
	ctx context.Context, env *cli.Env, steps []*intentv1.Step,
) (then []*rolloutv1.Standing, err error) {
	for _, name := range f.defaults {
		r, err := cli.Call[*registryv1.ListDefaultsResponse](ctx, env,
			&registryv1.ListDefaultsRequest{Environment: name})
		if err != nil {
			return nil, err
		}
		values := map[string]map[string]string{}
		for _, row := range r.GetDefaults() {
			values[row.GetAgent()] = row.GetDefault().GetMetadata()
		}
		for _, step := range steps {
			agent, image := step.GetInstall().GetAgent(), step.GetInstall().GetImage()
			if up := step.GetUpgrade(); up != nil {
				agent, image = up.GetAgent(), up.GetImage()
			}
			if agent == "" {
				continue // it is configured
			}
			d := &rolloutv1.StandingDefault{Environment: name, Agent: agent, Metadata: values[agent]}
			switch by := image.GetBy().(type) {
			case *intentv1.ImageChoice_Version:
				d.Image = &rolloutv1.StandingDefault_Version{Version: by.Version}
			case *intentv1.ImageChoice_ImageId:
				d.Image = &rolloutv1.StandingDefault_ImageId{ImageId: by.ImageId}
			case *intentv1.ImageChoice_Channel:
				d.Image = &rolloutv1.StandingDefault_Channel{Channel: by.Channel}
			}
			then = append(then, &rolloutv1.Standing{Change: &rolloutv1.Standing_Default{Default: d}})
		}
	}
	for _, name := range f.channels {
		p := &rolloutv1.StandingPromotion{Channel: name}
		then = append(then, &rolloutv1.Standing{Change: &rolloutv1.Standing_Promotion{Promotion: p}})
	}
	return then, nil
}
