package rollout

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/timestamppb"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// groupFlags has the help of a rollout begin with the flags that most rollouts need.
func groupFlags(flags *pflag.FlagSet) {
	cli.GroupFlags(flags, "Flags of the change", "all", "exclude", "install", "remove", "repair", "configure", "set",
		"set-json", "set-secret", "unset", "from", "replace", "strict", "title")
	cli.GroupFlags(flags, "Flags of the gates", "approve", "success", "silence", "keep", "override",
		"emergency", "join-for")
	cli.GroupFlags(flags, "Flags of the end", "done-percent", "done-after", "then-default", "then-promote", "detach",
		"timeout")
	cli.GroupFlags(flags, "Flags of the waves", "cover", "spread", "concurrency", "at", "at-once", "compare")
}

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

// startAt is --at: when the first wave begins.
type startAt struct {
	at    time.Time // zero means at once
	given bool
	now   func() time.Time
}

func (s *startAt) add(flags *pflag.FlagSet, now func() time.Time, without string) {
	s.now = now
	read := cli.StartReader(now)
	flags.Var(cli.FlagValue{Read: func(text string) (err error) {
		s.given = true
		s.at, err = read(text)
		return err
	}}, "at", "begin at this `TIME`, and do not watch: 22:00 or \"2026-12-01 22:00\" in UTC, both with an IANA zone "+
		"behind, +2h, RFC 3339, or now; without it, "+without)
}

// set sets the start of a rollout where the flag is given. A time in the past is refused.
func (s *startAt) set(q *intentv1.Rollout) error {
	switch {
	case !s.given:
	case s.at.IsZero():
		q.StartAt = nil
	case !s.at.After(s.now()):
		return cli.Usage("--at %s is in the past. Try: --at +2h", s.at.UTC().Format(time.RFC3339))
	default:
		q.StartAt = timestamppb.New(s.at)
	}
	return nil
}

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
