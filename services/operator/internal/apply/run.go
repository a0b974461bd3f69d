package apply

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/listing"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/inventory"
)

// Asking are the flags of a command that shows, asks and then writes.
type Asking struct {
	Yes, DryRun, AtOnce bool

	Note    string        // of the rollouts
	Watch   bool          // until they end
	Timeout time.Duration // of that
}

// Add adds the flags.
func (s *Asking) Add(c *cobra.Command) {
	c.Flags().BoolVarP(&s.Yes, "yes", "y", false, "do not ask for confirmation")
	c.Flags().BoolVar(&s.DryRun, "dry-run", false, "show the changes and make none")
	c.Flags().BoolVar(&s.AtOnce, "at-once", false, "also when defaults install an agent on more than 100 servers at "+
		"once, without waves")
}

// Run shows a plan, asks, and makes its changes. flag is what invites servers, for the refusal of unknown ones.
func Run(
	ctx context.Context, env *cli.Env, plan *declare.Plan, inv inventory.Invitations, s Asking, flag string,
) error {
	say(env, plan)
	if err := refuse(env, plan); err != nil {
		return err
	}
	if names := plan.NewServers(); len(names) > 0 && inv.Dir == "" && !s.DryRun {
		return errNotInvited(names, flag)
	}
	if err := inventory.Foresee(ctx, env, plan, s.AtOnce); err != nil {
		return err
	}
	if err := inventory.Show(env, plan); err != nil {
		return err
	}
	if len(plan.Changes)+len(plan.Rollouts) == 0 {
		env.Say("nothing to do")
		return nil
	}
	what := summary(plan)
	if s.DryRun {
		env.Say("dry run: %s; nothing changed", what)
		return nil
	}
	if err := env.Confirm(ctx, s.Yes, what+". Continue?"); err != nil {
		return err
	}
	result, err := inventory.Do(ctx, env, plan, inv)
	if err != nil {
		return err
	}
	if err := conclude(ctx, env, result); err != nil {
		return err
	}
	return startRollouts(ctx, env, plan, len(result.Done) > 0, s)
}

// conclude prints what was done and what was not.
func conclude(ctx context.Context, env *cli.Env, r inventory.Result) error {
	for _, f := range r.Failed {
		env.Say("%s: %s", f.Change, cli.LineOf(f.Err))
	}
	if len(r.Done) > 0 {
		env.Say("done: %s", summary(&declare.Plan{Changes: r.Done}))
	}
	switch {
	case len(r.Failed) == 0:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(r.Done) == 0:
		return cli.Ended(cli.CodeOf(r.Failed[0].Err))
	}
	env.Say("not done: %d of %d changes; the same command continues", len(r.Failed), len(r.Failed)+len(r.Done))
	return cli.Ended(cli.ExitPartly)
}

// summary counts what a plan does in words.
func summary(plan *declare.Plan) string {
	n := plan.Counts()
	var parts []string
	for _, a := range declare.Actions {
		if n[a] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", a, listing.Plural(n[a], "object")))
		}
	}
	if n := len(plan.Rollouts); n > 0 {
		parts = append(parts, "start "+listing.Plural(n, "rollout"))
	}
	return strings.Join(parts, ", ")
}
