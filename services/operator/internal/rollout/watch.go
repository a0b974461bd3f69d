package rollout

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// lineEvery is how often a line is printed where there is no terminal to draw on.
const lineEvery = 10 * time.Second

func flagNames(c *cobra.Command) (names []string) {
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

func watchCommand(env *cli.Env) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use: "watch ROLLOUT", Example: "  garrison rollout watch 1a2b3c4d",
		Short: "Follow a rollout to its end, or until it halts; Ctrl-C leaves the view only.",
		Args:  cli.Exactly("ROLLOUT"), PreRunE: cli.Prints(env, display.Rollouts),
		RunE: func(c *cobra.Command, a []string) error { return follow(c.Context(), env, a[0], timeout) },
	}
	cli.TimeVar(c.Flags(), &timeout, "timeout", 24*time.Hour, 0,
		"stop watching after this `DURATION`, with exit code 7; the rollout goes on")
	return c
}

// watcher follows one rollout. Each poll costs the same, however many servers it has.
type watcher struct {
	env   *cli.Env
	id    string
	line  *output.Live
	last  *registryv1.GetRolloutResponse
	said  map[string]bool // what was printed for good
	lined time.Time
}

// follow follows a rollout until it ends or halts, and prints how it went.
func follow(ctx context.Context, env *cli.Env, id string, timeout time.Duration) error {
	once, cancel := context.WithTimeoutCause(ctx, timeout, cli.ErrWaited)
	defer cancel()
	c, err := env.Client(once)
	if err != nil {
		return err
	}
	w := &watcher{env: env, id: id, line: env.Live(), said: map[string]bool{}}
	defer w.line.End()
	err = c.Await(once, func(ctx context.Context) (bool, error) {
		r, err := get(ctx, env, id)
		if err != nil {
			if fault.Is(err, fault.Unavailable) {
				w.line.Set("no answer yet: %v", err)
			}
			return false, err
		}
		w.last = r
		w.show()
		return over(r), nil
	})
	w.line.End()
	if err != nil {
		return env.Left(once, err, "garrison rollout watch "+id)
	}
	return w.conclude()
}

// over reports whether the view of a rollout ends. One that halted first takes its broken servers back.
func over(r *registryv1.GetRolloutResponse) bool {
	s := r.GetRollout().GetState()
	return rollout.Ended(s) || s == rolloutv1.State_STATE_HALTED && r.GetRestoring() == 0
}

// show prints what is new, and redraws the progress.
func (w *watcher) show() {
	r := w.last.GetRollout()
	for n, wave := range r.GetWaves() {
		if wave.GetOpenedAt() != nil {
			w.once(fmt.Sprintf("wave %d of %d began: %s", n+1, len(r.GetWaves()),
				output.Plural(int(wave.GetServers()), "server")))
		}
		if wave.GetPassedAt() != nil {
			w.once(fmt.Sprintf("wave %d of %d passed", n+1, len(r.GetWaves())))
		}
	}
	for _, reason := range w.last.GetReasons() {
		key := fmt.Sprint(reason.GetState(), reason.GetCode())
		if !w.said[key] && reason.GetState() == rolloutv1.TargetState_TARGET_STATE_BROKEN {
			w.said[key] = true
			w.line.Say("broken: %s", display.RolloutReason(reason))
		}
	}
	now := rollout.Current(r)
	if now == 0 {
		now = uint32(len(r.GetWaves()))
	}
	text := display.WaveText(now, rollout.Wave(r, now), len(r.GetWaves()))
	if w.last.GetWaitsFor() != "" {
		text += "; waits for " + strings.TrimPrefix(w.last.GetWaitsFor(), fmt.Sprintf("wave %d: ", now))
	}
	w.line.Set("%s", text)
	if !w.line.On && time.Since(w.lined) > lineEvery {
		w.lined = time.Now()
		w.line.Say("%s", text)
	}
}

func (w *watcher) once(text string) {
	if !w.said[text] {
		w.said[text] = true
		w.line.Say("%s", text)
	}
}

// conclude prints the rollout and what can be done now, and returns the exit code.
func (w *watcher) conclude() error {
	r := w.last.GetRollout()
	if err := output.ShowOne(w.env.Output, w.env.Output.View(), display.Rollouts, r,
		display.RolloutPairs(w.env.Output.View(), w.last)...); err != nil {
		return err
	}
	switch r.GetState() {
	case rolloutv1.State_STATE_HALTED:
		w.env.Say("halted: %s", display.Reason(r.GetReason()))
		w.env.Say("to take its servers back: garrison rollout undo %s", r.GetId())
		w.env.Say("to accept the damage and go on: garrison rollout resume %s", r.GetId())
		return cli.Ended(cli.ExitHalted)
	case rolloutv1.State_STATE_SUCCEEDED:
		w.env.Say("to undo it: garrison rollout undo %s", r.GetId())
		if display.Broken(r) > 0 {
			return cli.Ended(cli.ExitPartly)
		}
		return nil
	}
	return cli.Ended(cli.ExitPartly)
}
