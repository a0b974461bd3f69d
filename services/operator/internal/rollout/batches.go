package rollout

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/change"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// mostStages is how many stages a strategy has at most.
const mostStages = 100

// batches are the flags with which install and up are a rollout.
type batches struct {
	env       *cli.Env
	batch     *rolloutv1.Limit
	stopAfter uint32
	soak      time.Duration
	undo      strategyFlags
}

// Batches returns the flags with which install and up are a rollout.
func Batches(env *cli.Env) change.Waves { return &batches{env: env} }

// Add implements change.Waves.
func (b *batches) Add(c *cobra.Command) {
	c.Flags().Var(cli.FlagValue{Read: func(text string) error {
		l, err := cli.ReadLimit(text)
		if err == nil && l.GetServers()+l.GetPercent() == 0 {
			err = cli.Usage("a batch has at least one server")
		}
		b.batch = l
		return err
	}}, "batch", "change waves of `N` servers, or of N% of them")
	countVar(c.Flags(), &b.stopAfter, "stop-after", "halt once `N` servers are newly broken; without it, once more "+
		"than 1% are")
	cli.TimeVar(c.Flags(), &b.soak, "soak", 0, longest,
		"after each wave, wait this `TIME`, in which its servers must stay healthy")
	if f := c.Flags().Lookup("at-once"); f != nil {
		f.Usage = fmt.Sprintf("change all servers at once, also more than %d; excludes --batch", work.Handful)
	}
}

// Given implements change.Waves.
func (b *batches) Given(c *cobra.Command) bool {
	return c.Flags().Changed("batch") || c.Flags().Changed("stop-after") || c.Flags().Changed("soak")
}

// Carry implements change.Waves. Without a batch, one server comes first where there are more than a handful.
func (b *batches) Carry(ctx context.Context, q *registryv1.PlanRolloutRequest, w work.Flags, wide *work.Planned) error {
	if b.batch != nil && w.AtOnce {
		return cli.Usage("--batch and --at-once exclude each other: waves, or all at once")
	}
	s := &rolloutv1.Strategy{Soak: cli.Within(b.soak), Override: w.Override}
	if b.stopAfter > 0 {
		s.MaxBroken = &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: b.stopAfter - 1}}
	}
	q.Intent.GetRollout().Strategy = s
	d, err := doingOf(w), error(nil)
	if d.wide = wide; wide != nil {
		s.Stages = OneFirst()
	} else {
		s.Stages, err = b.stages(ctx, q)
	}
	if err == nil {
		err = propose(ctx, b.env, d, q, "Start this rollout?")
	}
	if fault.RefusalOf(err).GetCode() == code.NothingLeft {
		b.env.Say("nothing to do")
		return nil
	}
	return err
}

// stages returns the waves that the flags ask for. The plan is made once more to count its servers, where they depend
// on how many there are.
func (b *batches) stages(ctx context.Context, q *registryv1.PlanRolloutRequest) ([]*rolloutv1.Stage, error) {
	if b.batch.GetPercent() > 0 {
		return stages(b.batch, 0)
	}
	atOnce := q.Intent.AtOnce
	q.Intent.AtOnce = true // no batch is too large yet
	servers, err := b.servers(ctx, q)
	q.Intent.AtOnce = atOnce
	switch {
	case err != nil:
		return nil, err
	case b.batch != nil:
		return stages(b.batch, servers)
	case !atOnce && servers > work.Handful:
		return OneFirst(), nil
	}
	return nil, nil
}

// OneFirst returns a wave of one server, before the wave of all others.
func OneFirst() []*rolloutv1.Stage {
	return []*rolloutv1.Stage{{Size: &rolloutv1.Stage_Servers{Servers: 1}}}
}

// AddUndo implements change.Waves.
func (b *batches) AddUndo(c *cobra.Command) {
	of := &cobra.Command{}
	b.undo.add(of)
	of.Flags().VisitAll(func(f *pflag.Flag) {
		if c.Flags().Lookup(f.Name) == nil { // such as --override, which every change has
			c.Flags().AddFlag(f)
		}
	})
	groupFlags(c.Flags())
}

// GivenUndo implements change.Waves.
func (b *batches) GivenUndo(c *cobra.Command) bool { return b.undo.given(c, "override") }

// Undo implements change.Waves.
func (b *batches) Undo(ctx context.Context, id string, w work.Flags) error {
	q := undoRequest(id, nil, w.AtOnce)
	q.Intent.Note, q.Intent.Strict = w.Note, w.Strict
	how := b.undo.parse()
	if how.Override = w.Override; !proto.Equal(how, &rolloutv1.Strategy{}) {
		q.Intent.GetRollout().Strategy = how
	}
	return propose(ctx, b.env, doingOf(w), q, "Undo it?")
}

func doingOf(w work.Flags) doing {
	return doing{yes: w.Yes, detach: w.Detach, dryRun: w.DryRun, timeout: w.Timeout}
}

// servers returns how many servers a change reaches in waves. The sizes of batches depend on it.
func (b *batches) servers(ctx context.Context, q *registryv1.PlanRolloutRequest) (uint32, error) {
	p, err := planned(ctx, b.env, cli.PageFlags{Limit: 1}, q)
	return serversOf(p), cmp.Or(err, refusedPlan(p))
}

// stages returns the waves of a batch size; what is left over is the last wave.
func stages(batch *rolloutv1.Limit, servers uint32) ([]*rolloutv1.Stage, error) {
	var stage rolloutv1.Stage
	n := uint32(0)
	switch by := batch.GetBy().(type) {
	case *rolloutv1.Limit_Percent:
		stage.Size = &rolloutv1.Stage_Percent{Percent: by.Percent}
		n = 100 / by.Percent
	case *rolloutv1.Limit_Servers:
		stage.Size = &rolloutv1.Stage_Servers{Servers: by.Servers}
		n = servers / by.Servers
	}
	if n > mostStages {
		return nil, cli.Usage("%d servers in batches of %d are more than %d waves. Try: --batch %d", servers,
			batch.GetServers(), mostStages, servers/mostStages+1)
	}
	var out []*rolloutv1.Stage
	for range n {
		out = append(out, &rolloutv1.Stage{Size: stage.Size})
	}
	return out, nil
}
