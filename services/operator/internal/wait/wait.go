// Package wait builds the command garrison watch: the progress and the end of intents, tasks and rollouts.
package wait

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/intent"
	"github.com/garrison-fleet/garrison/services/operator/internal/rollout"
	"github.com/garrison-fleet/garrison/services/operator/internal/task"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
)

// decidedWithin bounds the wait for the decision of an intent that is not decided yet.
const decidedWithin = 3 * time.Second

// Command returns the command watch.
func Command(env *cli.Env) *cobra.Command {
	var timeout time.Duration
	var quiet bool
	c := &cobra.Command{
		Use:   "watch INTENT|TASK|ROLLOUT…",
		Short: "Watch intents, tasks and rollouts to their end: servers, steps, failures and the outcome.",
		Long: `Watch intents, tasks and rollouts until they end. Each is named by its id or the beginning of it.
Ctrl-C leaves the view; the work continues. The exit code is 0 if all succeeded, 5 if some did or a rollout
left servers of its plan out, 1 if none did, 6 when a rollout halted, and 7 after the time-out; of several,
the worst: 6, then 1, then 5. With --quiet it prints nothing but the outcome, as scripts need it.`,
		Example: "  garrison watch 0f0e5a38-5d6c-4b7e-9f6b-3d0f6f2f5a11\n" +
			"  garrison watch 65d947de --quiet --timeout 10m",
		PreRunE: cli.Prints(env, display.Tasks), SuggestFor: []string{"follow", "attach", "wait"},
		Args: func(_ *cobra.Command, a []string) error {
			if len(a) == 0 {
				return cli.Usage("garrison watch: INTENT, TASK or ROLLOUT is missing. Try: garrison intent list")
			}
			return nil
		},
		RunE: func(c *cobra.Command, a []string) error { return follow(c.Context(), env, timeout, a, quiet) },
	}
	cli.TimeVar(c.Flags(), &timeout, "timeout", 24*time.Hour, 0,
		"stop watching after this `DURATION`, with exit code 7; the work continues")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "show no progress")
	return c
}

// followed is what words name.
type followed struct {
	rollouts []string // ids
	orders   []watch.Order
	tasks    []string
}

// read adds what a word names, a rollout, an intent or a task, unless another word named it.
func (f *followed) read(ctx context.Context, env *cli.Env, word string) error {
	switch id, err := fleet.RolloutID(ctx, env, word); {
	case err == nil:
		if !slices.Contains(f.rollouts, id) {
			f.rollouts = append(f.rollouts, id)
		}
		return nil
	case !fault.Is(err, fault.NotFound) && fault.RefusalOf(err).GetCode() != code.Ambiguous:
		return err // what is no rollout may be an intent or a task
	}
	switch o, other, err := orderOf(ctx, env, word); {
	case err != nil:
		return err
	case other:
		t, err := fleet.Task(ctx, env, word)
		if fault.Is(err, fault.NotFound) {
			return cli.Refuse(fault.NotFound, &apiv1.Refusal{
				Code: code.NotFound, Try: "garrison intent list", Message: fmt.Sprintf(
					"no rollout, intent or task has an id that begins with %q (the latest of each are known)", word),
			})
		}
		if id := cmp.Or(t.GetId(), word); !slices.Contains(f.tasks, id) {
			f.tasks = append(f.tasks, id)
		}
	default:
		if !slices.ContainsFunc(f.orders, func(have watch.Order) bool { return have.Id == o.Id }) {
			f.orders = append(f.orders, o)
		}
	}
	return nil
}

// follow follows what the words name: the rollouts one after the other, and then the intents and the tasks. What ended
// badly does not keep the rest from being shown.
func follow(ctx context.Context, env *cli.Env, timeout time.Duration, words []string, quiet bool) error {
	var f followed
	for _, word := range words {
		if err := f.read(ctx, env, word); err != nil {
			return err
		}
	}
	var views []func(left time.Duration) error
	for _, id := range f.rollouts {
		views = append(views, func(left time.Duration) error { return rollout.Follow(ctx, env, id, left, quiet) })
	}
	if len(f.orders) > 0 {
		views = append(views, func(left time.Duration) error { return followOrders(ctx, env, left, f.orders, quiet) })
	}
	if len(f.tasks) > 0 {
		views = append(views, func(left time.Duration) error {
			return watch.FollowTasks(ctx, env, left, f.tasks, quiet)
		})
	}
	end, worst := time.Now().Add(timeout), cli.ExitOK
	for _, view := range views {
		err := view(time.Until(end))
		n := cli.CodeOf(err)
		if e, ok := err.(cli.Exit); err != nil && (!ok || !e.Quiet || !slices.Contains(badness, n)) {
			return err // an error, a time-out or Ctrl-C
		}
		worst = badness[max(slices.Index(badness, worst), slices.Index(badness, n))]
	}
	return cli.Ended(worst)
}

// badness are the exit codes of work that ended or halted, the worst last: a halt waits for a person.
var badness = []int{cli.ExitOK, cli.ExitPartly, cli.ExitError, cli.ExitHalted}

func followOrders(ctx context.Context, env *cli.Env, timeout time.Duration, orders []watch.Order, quiet bool) error {
	err := watch.Follow(ctx, env, watch.Options{Timeout: timeout, Quiet: quiet}, orders)
	if fault.RefusalOf(err).GetCode() == code.NotCounted {
		id := ident.Handle(orders[0].Id)
		env.Say("intent %s ended long ago; see garrison intent show %s", id, id)
	}
	return err
}

// taskOnly reports whether a word that is too short for an intent, or begins several, begins one task.
func taskOnly(ctx context.Context, env *cli.Env, word string, err error) bool {
	if !fault.Is(err, fault.Invalid) && fault.RefusalOf(err).GetCode() != code.Ambiguous {
		return false
	}
	_, none := fleet.Task(ctx, env, word)
	return none == nil
}

// orderOf returns the intent with an id or a prefix of one. other reports that the word names no intent, but a task or
// nothing. A whole id that is neither is an error, since it is that of an intent which was not stored.
func orderOf(ctx context.Context, env *cli.Env, word string) (o watch.Order, other bool, err error) {
	if cli.IDPrefix("an intent")(word) != nil {
		return o, true, nil
	}
	r, err := fleet.Intent(ctx, env, word, 0)
	if fault.Is(err, fault.NotFound) {
		if _, task := fleet.Task(ctx, env, word); task == nil || !ident.IsUUID(word) {
			return o, true, nil
		}
		r, err = fleet.Intent(ctx, env, word, decidedWithin) // it may be published a moment ago
	}
	switch {
	case err != nil && !ident.IsUUID(word) && taskOnly(ctx, env, word, err):
		return o, true, nil
	case err != nil:
		return o, false, err
	case r.GetState() == intentv1.State_STATE_REFUSED:
		return o, false, fault.Refuse(fault.Invalid, r.GetRefusal())
	}
	i := r.GetIntent()
	o = watch.Order{Verb: verbOf(i), Intent: i, Id: r.GetId(), Record: r}
	if i.GetDecommission().GetServer() != "" && len(r.GetServerIds()) > 0 {
		o.Dying = r.GetServerIds()[0]
	}
	return o, false, nil
}

// verbOf returns the verb of an intent.
func verbOf(i *intentv1.Intent) string {
	m := i.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("ask")); f != nil {
		return string(f.Name())
	}
	return ""
}

// CancelCommand returns the command cancel.
func CancelCommand(env *cli.Env) *cobra.Command {
	var f intent.CancelFlags
	c := &cobra.Command{
		Use:   "cancel INTENT|TASK",
		Short: "Cancel what has not begun of an intent, or one task; what runs finishes.",
		Long: `Withdraw an intent: cancel its changes that have not begun or are deferred, on every server. Or cancel
one task that is not assigned yet. Changes that run finish. A rollout is ended by garrison rollout abort.`,
		Example: "  garrison cancel 0f0e5a38-5d6c-4b7e-9f6b-3d0f6f2f5a11 -m \"wrong version\"\n" +
			"  garrison cancel 65d947de --dry-run",
		Args: cli.Exactly("INTENT|TASK"), PreRunE: cli.Prints(env, display.Records),
		SuggestFor: []string{"withdraw", "kill"},
		RunE:       func(c *cobra.Command, a []string) error { return cancel(c.Context(), env, f, a[0]) },
	}
	cli.NoteVar(c.Flags(), &f.Reason)
	c.Flags().BoolVar(&f.Work.DryRun, "dry-run", false, "show what has not begun; change nothing")
	cli.TimeVar(c.Flags(), &f.Work.Timeout, "timeout", time.Minute, 0,
		"of an intent: stop waiting after this `DURATION`, with exit code 7")
	f.Work.AddYes(c)
	return c
}

// cancel cancels the intent or the task that a word names.
func cancel(ctx context.Context, env *cli.Env, f intent.CancelFlags, word string) error {
	var named followed
	if err := named.read(ctx, env, word); err != nil {
		return err
	}
	switch {
	case len(named.rollouts) > 0:
		return cli.Usage("%s is a rollout. Try: garrison rollout abort %[1]s", word)
	case len(named.orders) > 0:
		return intent.Cancel(ctx, env, f, named.orders[0].Record)
	}
	return task.Cancel(ctx, env, named.tasks[0], f.Reason)
}
