package rollout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/record"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// lineEvery is how often a line is printed where there is no terminal to draw on.
const lineEvery = 10 * time.Second

func flagNames(c *cobra.Command) (names []string) {
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// watcher follows one rollout. Each poll costs the same, however many servers it has.
type watcher struct {
	env    *cli.Env
	id     string
	line   *output.Live
	last   *registryv1.GetRolloutResponse
	said   map[string]bool // what was printed for good
	lined  time.Time
	looked time.Time                      // when deferred and slow changes were last looked for
	ahead  time.Time                      // when it was last asked how long the rollout goes on
	left   *registryv1.GetRolloutResponse // the answer
	pace   pace
	page   func(context.Context, *registryv1.GetRolloutResponse) error // prints it at the end
}

// Follow follows a rollout until it ends or halts, and prints how it went. A quiet one shows nothing before.
func Follow(ctx context.Context, env *cli.Env, id string, timeout time.Duration, quiet bool) error {
	w := &watcher{env: env, id: id, line: env.Live(), said: map[string]bool{}}
	w.page = func(ctx context.Context, r *registryv1.GetRolloutResponse) error { return showPage(ctx, env, r) }
	return w.follow(ctx, timeout, quiet)
}

// follow follows the rollout that it began.
func (d doing) follow(ctx context.Context, env *cli.Env, id string) error {
	if !d.asFew(env) {
		return Follow(ctx, env, id, d.timeout, false)
	}
	w := &watcher{env: env, id: id, line: env.Live(), said: map[string]bool{}}
	w.page = func(ctx context.Context, r *registryv1.GetRolloutResponse) error { return showTasks(ctx, env, id) }
	return w.follow(ctx, d.timeout, false)
}

// mostIntents is how many intents a request for their tasks names at most.
const mostIntents = 10_000

// showTasks prints the tasks of a rollout, as a change of few servers does.
func showTasks(ctx context.Context, env *cli.Env, id string) error {
	r, err := cli.All[*registryv1.ListRolloutTargetsResponse](ctx, env,
		&registryv1.ListRolloutTargetsRequest{RolloutId: id})
	if err != nil {
		return err
	}
	var intents []string
	for _, t := range r.GetTargets() {
		intents = append(intents, t.GetTarget().GetIntentIds()...)
	}
	intents = slices.Compact(slices.Sorted(slices.Values(intents)))
	whole := &dispatcherv1.ListTasksResponse{}
	for part := range slices.Chunk(intents, mostIntents) {
		tasks, err := fleet.Tasks(ctx, env, cli.PageFlags{}, &dispatcherv1.ListTasksRequest{IntentIds: part})
		if err != nil {
			return err
		}
		whole.Tasks = append(whole.Tasks, tasks.GetTasks()...)
	}
	return output.ShowIn(env.Output, env.Output.View(), display.Tasks, whole, whole.GetTasks())
}

func (w *watcher) follow(ctx context.Context, timeout time.Duration, quiet bool) error {
	env, id := w.env, w.id
	once, cancel := context.WithTimeoutCause(ctx, timeout, cli.ErrWaited)
	defer cancel()
	c, err := env.Client(once)
	if err != nil {
		return err
	}
	w.line.On = w.line.On && !quiet
	defer w.line.End()
	err = c.Await(once, func(ctx context.Context) (bool, error) {
		r, err := w.get(ctx)
		if err != nil {
			if fault.Is(err, fault.Unavailable) {
				w.away(err)
			}
			return false, err
		}
		w.last = r
		if !quiet {
			w.show(ctx)
		}
		return over(r), nil
	})
	w.line.End()
	if err != nil {
		return cli.LeftRollout(once, env, err, ident.Handle(id))
	}
	return w.conclude(ctx)
}

// away shows that no service answers. Without a terminal it says so at most every lineEvery.
func (w *watcher) away(err error) {
	w.line.Set("the service does not answer; retrying (%v)", err)
	if !w.line.On && time.Since(w.lined) > lineEvery {
		w.lined = time.Now()
		w.line.Say("the service does not answer; retrying (%v)", err)
	}
}

// over reports whether the view of a rollout ends. One that halted first takes its broken servers back.
func over(r *registryv1.GetRolloutResponse) bool {
	s := r.GetRollout().GetState()
	return rollout.Ended(s) || s == rolloutv1.State_STATE_HALTED && r.GetRestoring() == 0
}

// show prints what is new, and redraws the progress.
func (w *watcher) show(ctx context.Context) {
	r := w.last.GetRollout()
	for n, wave := range r.GetWaves() {
		if wave.GetOpenedAt() != nil {
			w.once(fmt.Sprintf("wave %d of %d began: %s", n+1, len(r.GetWaves()),
				listing.Plural(int(wave.GetServers()), "server")))
		}
		if wave.GetPassedAt() != nil {
			w.once(fmt.Sprintf("wave %d of %d passed", n+1, len(r.GetWaves())))
		}
	}
	w.sayServers(ctx)
	left := leftAfter(w.last, w.left, time.Since(w.ahead), w.env.Now())
	w.pace.add(time.Now(), display.Ended(r))
	w.line.SetLines(screen(w.last, w.pace.text(), left)...)
	if !w.line.On && time.Since(w.lined) > lineEvery {
		w.lined = time.Now()
		w.line.Say("%s", progress(w.last, left))
	}
}

// sayServers prints, once each, why servers are broken and which ones are slow.
func (w *watcher) sayServers(ctx context.Context) {
	for _, reason := range w.last.GetReasons() {
		key := fmt.Sprint(reason.GetState(), reason.GetStep(), reason.GetCode())
		if !w.said[key] && reason.GetState() == rolloutv1.TargetState_TARGET_STATE_BROKEN {
			w.said[key] = true
			w.line.Say("broken: %s", display.RolloutReason(reason))
			if line := w.lastOutput(ctx, reason); line != "" {
				w.line.Say("  last output: %s", line)
			}
		}
	}
	if time.Since(w.looked) < lookEvery {
		return
	}
	w.looked = time.Now()
	w.sayDeferred(ctx)
	findSlow(ctx, w.env, w.last)
	for _, s := range w.newlySlow() {
		w.line.Say("slow: %s", display.SlowText(s))
	}
}

// sayDeferred prints, once each, the servers on which changes wait, as the task-dispatcher knows them. Without its
// answer nothing is printed.
func (w *watcher) sayDeferred(ctx context.Context) {
	for _, agent := range w.last.GetRollout().GetAgents() {
		r, err := fleet.Tasks(ctx, w.env, cli.PageFlags{Limit: mostDeferred}, &dispatcherv1.ListTasksRequest{
			Agent: agent, States: []taskv1.State{taskv1.State_STATE_RUNNING},
		})
		if err != nil {
			return
		}
		for _, t := range r.GetTasks() {
			if key := "deferred " + t.GetId(); task.Waits(t) && !w.said[key] {
				w.said[key] = true
				w.line.Say("deferred: %s on %s: %s", agent, w.nameOf(ctx, t.GetServerId()), t.GetReason())
			}
		}
	}
}

// nameOf returns the name of a server, or its id when the registry does not answer.
func (w *watcher) nameOf(ctx context.Context, id string) string {
	s, err := fleet.Server(ctx, w.env, id)
	if err != nil {
		return ident.Short(id)
	}
	return s.GetName()
}

// newlySlow returns the slow changes that were not printed. One that is still slow in its next step was.
func (w *watcher) newlySlow() (out []*registryv1.SlowServer) {
	for _, s := range w.last.GetSlow() {
		if key := "slow " + s.GetServerId() + " " + s.GetAgent(); !w.said[key] {
			w.said[key] = true
			out = append(out, s)
		}
	}
	return out
}

const (
	// lookEvery is how often deferred and slow changes are looked for.
	lookEvery = 3 * time.Second
	// mostDeferred is how many running tasks are read for those that are deferred.
	mostDeferred = 100
)

// mostTasks is how many tasks of a server are read to find the one of a rollout.
const mostTasks = 10

// lastOutput returns the last line that an agent printed before its change failed on the first server of a reason; ""
// when that cannot be read, for it only adds to what is shown.
func (w *watcher) lastOutput(ctx context.Context, reason *registryv1.RolloutReason) string {
	if len(reason.GetServerNames()) == 0 || reason.GetStep() == "" { // no change failed
		return ""
	}
	on, err := fleet.Server(ctx, w.env, reason.GetServerNames()[0])
	if err != nil {
		return ""
	}
	r, err := fleet.Tasks(ctx, w.env, cli.PageFlags{Limit: mostTasks}, &dispatcherv1.ListTasksRequest{
		ServerId: on.GetId(), States: []taskv1.State{taskv1.State_STATE_UNDONE, taskv1.State_STATE_FAILED},
	})
	if err != nil || fleet.OpenOutputs(ctx, w.env, r.GetTasks()) != nil {
		return ""
	}
	return outputOf(w.last.GetRollout(), r.GetTasks())
}

// outputOf returns the telling line of the newest task of a rollout, among tasks of a server, the newest first.
func outputOf(r *rolloutv1.Rollout, tasks []*taskv1.Task) string {
	for _, t := range tasks {
		if slices.Contains(r.GetAgents(), t.GetAgent()) && !t.GetQueuedAt().AsTime().Before(r.GetPlannedAt().AsTime()) {
			return display.TellingLine(t)
		}
	}
	return ""
}

// aheadEvery is how often it is asked how long the rollout goes on, which costs the registry a forecast.
const aheadEvery = 15 * time.Second

// get returns the rollout, and notes from time to time how long it goes on.
func (w *watcher) get(ctx context.Context) (*registryv1.GetRolloutResponse, error) {
	if time.Since(w.ahead) < aheadEvery {
		return get(ctx, w.env, w.id)
	}
	r, err := getAhead(ctx, w.env, w.id)
	if err == nil {
		w.ahead, w.left = time.Now(), r
	}
	return r, err
}

func (w *watcher) once(text string) {
	if !w.said[text] {
		w.said[text] = true
		w.line.Say("%s", text)
	}
}

// conclude prints the rollout and what can be done now, and returns the exit code.
func (w *watcher) conclude(ctx context.Context) error {
	r := w.last.GetRollout()
	if err := w.page(ctx, w.last); err != nil {
		return err
	}
	switch r.GetState() {
	case rolloutv1.State_STATE_HALTED:
		w.halted(ctx, r)
	case rolloutv1.State_STATE_SUCCEEDED:
		if w.undoable(ctx) {
			w.env.Say("to undo: %s", display.UndoRollout(r))
		}
	}
	if n := display.Owed(r); n > 0 && r.GetState() == rolloutv1.State_STATE_SUCCEEDED {
		id := ident.Handle(r.GetId())
		w.env.Say("owed: %s did not change, and each does by itself once it is back: "+
			"garrison rollout show %s --servers --state owed", listing.Plural(int(n), "server"), id)
	}
	return cli.Ended(exitOf(r))
}

// undoable reports whether an undo would change a server, as the registry plans it: what only started again leaves
// nothing to go back to. Without its answer, what the rollout changed decides.
func (w *watcher) undoable(ctx context.Context) bool {
	if rollout.Changed(w.last.GetRollout()) == 0 {
		return false
	}
	p, err := cli.Call[*registryv1.PlanRolloutResponse](ctx, w.env, &registryv1.PlanRolloutRequest{
		Intent: &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: w.id}}},
		Page:   &apiv1.Page{Limit: 1},
	})
	return err != nil || p.GetRefusal().GetCode() != code.NothingLeft
}

// halted prints why a rollout halted, and what can be done now.
func (w *watcher) halted(ctx context.Context, r *rolloutv1.Rollout) {
	id, rest, goesOn := ident.Handle(r.GetId()), "what it changed", "go on"
	w.env.Say("halted: %s", display.Reason(r.GetReason()))
	if display.Broken(r) > 0 { // not after a rejection
		w.env.Say("its broken servers were asked to go back; whether they are: garrison rollout show %s", id)
		rest, goesOn = "the others", "accept the damage and go on"
	}
	w.env.Say("to end it: garrison rollout abort %s", id)
	if w.undoable(ctx) {
		w.env.Say("to take back %s: %s", rest, display.UndoRollout(r))
	}
	if block := w.blocked(ctx); block != "" {
		w.env.Say("what it brings was blocked; before it can go on: garrison unblock %s -m WHY", block)
	}
	w.env.Say("to %s: garrison rollout resume %s", goesOn, id)
}

// exitOf returns the exit code of a rollout that ended or halted: partly done also while servers are owed the change.
func exitOf(r *rolloutv1.Rollout) int {
	switch {
	case r.GetState() == rolloutv1.State_STATE_HALTED:
		return cli.ExitHalted
	case r.GetState() == rolloutv1.State_STATE_SUCCEEDED &&
		display.Broken(r)+display.LeftOut(r)+display.Owed(r) == 0:
		return cli.ExitOK
	}
	return cli.ExitPartly
}

// blocked returns the id of the block of a build that halted the rollout; "" without one, or when that cannot be read,
// for it only adds to what is shown.
func (w *watcher) blocked(ctx context.Context) string {
	for _, agent := range w.last.GetRollout().GetAgents() {
		q := record.List(ledger.Block)
		q.Agent = agent
		blocks, err := cli.Records[*blockv1.Block](ctx, w.env, q)
		if err != nil {
			return ""
		}
		for _, b := range blocks {
			if b.GetRolloutId() == w.last.GetRollout().GetId() {
				return b.GetId()
			}
		}
	}
	return ""
}
