package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// pollEvery is how often tasks are asked for when no bell rings; long lists are asked for less often.
	pollEvery = time.Second
	// restAfterBell keeps a busy ledger from making the view ask all the time.
	restAfterBell = 150 * time.Millisecond
	// namedEnds is up to how many tasks each end is a line of its own.
	namedEnds = 50
)

// errWaited ends a wait whose time-out passed.
var errWaited = errors.New("the time-out passed")

// watcher follows the tasks of intents until they ended.
type watcher struct {
	s        *session
	orders   []order
	tasks    []task            // the last try for each server and agent
	names    map[string]string // of servers
	told     map[string]bool   // tasks whose end was told
	line     *live
	progress *progress
	bell     chan struct{}
	started  time.Time
}

// watch follows intents until the end, and says how it ended.
func (s *session) watch(ctx context.Context, w workFlags, orders []order) error {
	if !slices.ContainsFunc(orders, func(o order) bool { return o.record.GetChanged() > 0 }) {
		s.say("nothing to do")
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, errWaited)
	defer cancel()
	v := &watcher{s: s, orders: orders, names: map[string]string{}, told: map[string]bool{}, line: s.live(), bell: make(chan struct{}, 1), started: s.now()}
	defer v.line.end()
	stop, err := v.listen(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := v.follow(ctx); err != nil {
		v.line.end()
		return s.left(ctx, err, v.comeBack())
	}
	v.line.end()
	return v.conclude(context.WithoutCancel(ctx))
}

// listen rings the bell at each fact about tasks and servers, and keeps progress for the moving line.
func (v *watcher) listen(ctx context.Context) (stop func(), err error) {
	conn, err := v.s.connect(ctx)
	if err != nil {
		return nil, err
	}
	stopTail, err := conn.Subscribe(topology.TailSubject, func(bus.Message) {
		select {
		case v.bell <- struct{}{}:
		default: // it rings already
		}
	})
	if err != nil {
		return nil, err
	}
	v.progress = &progress{}
	stopLive, err := conn.Subscribe("garrison.live.*.*.*", v.progress.hear)
	if err != nil {
		stopTail()
		return nil, err
	}
	return func() { stopTail(); stopLive() }, nil
}

// follow looks again and again until everything ended.
func (v *watcher) follow(ctx context.Context) error {
	for {
		done, err := v.look(ctx)
		if err != nil && !fault.Is(err, fault.Unavailable) {
			return err
		}
		if done {
			return nil
		}
		v.show(err)
		if err := v.rest(ctx); err != nil {
			return err
		}
	}
}

// rest waits for the bell or for the next look.
func (v *watcher) rest(ctx context.Context) error {
	t := time.NewTimer(pollEvery * time.Duration(1+len(v.tasks)/1000))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-v.bell:
		return pause(ctx, restAfterBell)
	case <-t.C:
		return nil
	}
}

// look reads the tasks, tells of those that ended, and says whether all did.
func (v *watcher) look(ctx context.Context) (done bool, err error) {
	var all []task
	done = true
	for _, o := range v.orders {
		r, err := v.s.askTasks(ctx, pageFlags{}, &dispatcherv1.ListTasksRequest{IntentId: o.id})
		if err != nil {
			return false, err
		}
		last := lastTries(r.GetTasks())
		all = append(all, last...)
		ended, err := v.ended(ctx, o, last)
		if err != nil {
			return false, err
		}
		done = done && ended
	}
	v.tasks = all
	v.tell(ctx)
	return done, nil
}

// ended says whether an order is through. A server that is to end is dead, or a removal on it went wrong.
func (v *watcher) ended(ctx context.Context, o order, tasks []task) (bool, error) {
	if slices.ContainsFunc(tasks, func(t task) bool { return !hasEnded(t) }) {
		return false, nil
	}
	if o.dying == "" {
		return len(tasks) >= int(o.record.GetChanged()), nil
	}
	if n := tally(tasks); n.failed > 0 {
		return true, nil
	}
	found, err := v.s.getServer(ctx, o.dying)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	return found.GetLife() == serverv1.Life_LIFE_DEAD, err
}

// lastTries keeps the last try for each server and agent.
func lastTries(tasks []task) []task {
	last := map[[2]string]task{}
	for _, t := range tasks {
		key := [2]string{t.GetServerId(), t.GetAgent()}
		if have := last[key]; have == nil || later(t, have) {
			last[key] = t
		}
	}
	return slices.DeleteFunc(tasks, func(t task) bool { return last[[2]string{t.GetServerId(), t.GetAgent()}] != t })
}

func later(a, b task) bool {
	if a.GetGeneration() != b.GetGeneration() {
		return a.GetGeneration() > b.GetGeneration()
	}
	return a.GetAttempt() > b.GetAttempt()
}

// tell says each end once; of many tasks only those that did not succeed.
func (v *watcher) tell(ctx context.Context) {
	var news []task
	for _, t := range v.tasks {
		if hasEnded(t) && !v.told[t.GetId()] {
			v.told[t.GetId()] = true
			if len(v.tasks) <= namedEnds || t.GetState() != taskv1.State_STATE_SUCCEEDED {
				news = append(news, t)
			}
		}
	}
	v.learnNames(ctx)
	for _, t := range news {
		v.line.say("%s", v.endText(t))
	}
}

// learnNames looks up names of servers that are not known yet, all at once.
func (v *watcher) learnNames(ctx context.Context) {
	var unknown []task
	for _, t := range v.tasks {
		if _, ok := v.names[t.GetServerId()]; !ok {
			unknown = append(unknown, t)
		}
	}
	if len(unknown) == 0 {
		return
	}
	for id, name := range v.s.serverNames(ctx, unknown) {
		v.names[id] = name
	}
}

func (v *watcher) name(t task) string { return view{names: v.names}.server(t.GetServerId()) }

func (v *watcher) endText(t task) string {
	text := v.name(t) + ": " + word(t.GetVerb())
	if t.GetAgent() != "" {
		text += " " + t.GetAgent()
	}
	if versions := versionsText(t); versions != "" {
		text += " " + versions
	}
	text += ": " + word(t.GetState())
	if d := t.GetSince().AsTime().Sub(t.GetQueuedAt().AsTime()); t.GetQueuedAt() != nil && d > 0 {
		text += " after " + d.Round(10*time.Millisecond).String()
	}
	if reason := taskReason(t); reason != "" {
		text += ": " + cell(reason)
	}
	if s := t.GetState(); s == taskv1.State_STATE_FAILED || s == taskv1.State_STATE_UNDONE {
		text += " (garrison task show " + ident.Short(t.GetId()) + ")"
	}
	return text
}

// versionsText says from where to where a task leads; what stays is said once.
func versionsText(t task) string {
	from, to := t.GetFrom().GetVersion(), t.GetTo().GetVersion()
	switch {
	case from != "" && to != "" && from != to:
		return from + " → " + to
	case from != "" && to != "" && t.GetVerb() == taskv1.Verb_VERB_UPGRADE:
		return to + " again"
	}
	return to
}

// comeBack gives the commands that show the same work again.
func (v *watcher) comeBack() string {
	var out []string
	for _, o := range v.orders {
		out = append(out, "garrison task list --intent "+o.id)
	}
	return strings.Join(out, "; ")
}

// left says how to come back to work that goes on without the view.
func (s *session) left(ctx context.Context, err error, how string) error {
	switch {
	case errors.Is(err, errWaited) || errors.Is(context.Cause(ctx), errWaited):
		s.say("the work goes on; to come back: %s", how)
		return exit{code: exitTimeout, err: errWaited}
	case errors.Is(err, context.Canceled):
		s.say("left the view; the work goes on; to come back: %s", how)
		s.say("to take back what has not begun: garrison task cancel TASK")
		return ended(exitInterrupted)
	}
	return err
}

// conclude prints the tasks and the line that undoes them.
func (v *watcher) conclude(ctx context.Context) error {
	shown := v.tasks
	if len(shown) > namedEnds && v.s.output.format == formatTable {
		shown = slices.DeleteFunc(slices.Clone(shown), func(t task) bool { return t.GetState() == taskv1.State_STATE_SUCCEEDED })
	}
	view := v.s.view()
	view.names = v.names
	if len(shown) > 0 || !v.s.output.isTable() {
		if err := showIn(v.s, view, taskListing, &dispatcherv1.ListTasksResponse{}, shown); err != nil {
			return err
		}
	}
	n := tally(v.tasks)
	v.s.say("%s", v.doneText(n))
	for _, o := range v.orders {
		v.s.sayUndo(undoLines(o, v.of(o), v.names))
	}
	return ended(n.code())
}

// doneText says how it ended: by its tasks, or what was done without any.
func (v *watcher) doneText(n counts) string {
	if len(v.tasks) == 0 && v.orders[0].without != "" {
		return "done: " + v.orders[0].without
	}
	return fmt.Sprintf("%s after %s", n, v.s.now().Sub(v.started).Round(10*time.Millisecond))
}

// of gives the tasks of an order.
func (v *watcher) of(o order) []task {
	return slices.DeleteFunc(slices.Clone(v.tasks), func(t task) bool { return t.GetIntentId() != o.id })
}

// counts is how tasks ended.
type counts struct{ succeeded, failed int }

func tally(tasks []task) counts {
	var n counts
	for _, t := range tasks {
		switch {
		case t.GetState() == taskv1.State_STATE_SUCCEEDED:
			n.succeeded++
		case hasEnded(t):
			n.failed++
		}
	}
	return n
}

func (n counts) String() string {
	if n.failed == 0 {
		return fmt.Sprintf("done: %s succeeded", plural(n.succeeded, "task"))
	}
	return fmt.Sprintf("done: %s succeeded, %d did not", plural(n.succeeded, "task"), n.failed)
}

func (n counts) code() int {
	switch {
	case n.failed == 0:
		return exitOK
	case n.succeeded > 0:
		return exitPartly
	}
	return exitError
}
