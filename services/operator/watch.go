package operator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// pollEvery is how often an intent is looked at when no bell rings.
	pollEvery = time.Second
	// restAfterBell keeps a busy ledger from making the view ask all the time.
	restAfterBell = 150 * time.Millisecond
	// namedEnds is up to how many ends are a line of their own, and up to how many changes of an intent all are.
	namedEnds = 50
)

// errWaited ends a wait whose time-out passed.
var errWaited = errors.New("the time-out passed")

// watcher follows intents until nothing of them is to come. Each look costs the same, whatever their size.
type watcher struct {
	s        *session
	orders   []order
	progress []progress        // of the orders, as last looked at
	names    map[string]string // of servers
	told     map[string]bool   // tasks whose end was told
	line     *live
	bell     chan struct{}
	started  time.Time
	said     time.Time // when a line of progress was last printed without a terminal
}

// watch follows intents until the end, and prints how it ended.
func (s *session) watch(ctx context.Context, w workFlags, orders []order) error {
	orders = slices.DeleteFunc(slices.Clone(orders), func(o order) bool { return o.record.GetChanged() == 0 })
	if len(orders) == 0 {
		s.say("nothing to do")
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, errWaited)
	defer cancel()
	v := &watcher{
		s: s, orders: orders, names: map[string]string{}, told: map[string]bool{},
		line: s.live(), bell: make(chan struct{}, 1), started: s.now(), said: time.Now(),
	}
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

// listen rings the bell at each fact.
func (v *watcher) listen(ctx context.Context) (stop func(), err error) {
	conn, err := v.s.connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Subscribe(topology.TailSubject, func(bus.Message) {
		select {
		case v.bell <- struct{}{}:
		default: // it rings already
		}
	})
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
	t := time.NewTimer(pollEvery)
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

// look asks how far the intents are, prints what ended, and reports whether nothing is to come.
func (v *watcher) look(ctx context.Context) (done bool, err error) {
	all := make([]progress, 0, len(v.orders))
	done = true
	for _, o := range v.orders {
		p, err := v.s.askProgress(ctx, o.id, namedEnds)
		if err != nil {
			return false, err
		}
		ended, err := v.ended(ctx, o, p)
		if err != nil {
			return false, err
		}
		all, done = append(all, p), done && ended
	}
	v.progress = all
	v.tell(ctx)
	return done, nil
}

// ended reports whether an order is through. A server that is to end is dead, or a removal on it went wrong.
func (v *watcher) ended(ctx context.Context, o order, p progress) (bool, error) {
	if !p.GetEnded() || o.dying == "" || failed(p.GetCounts()) > 0 {
		return p.GetEnded(), nil
	}
	found, err := v.s.getServer(ctx, o.dying)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	return found.GetLife() == serverv1.Life_LIFE_DEAD, err
}

// rows returns the tasks that are known by now: all of a small intent, the first failures of a large one.
func (v *watcher) rows() []task {
	var out []task
	for _, p := range v.progress {
		out = append(out, endRows(p)...)
	}
	return out
}

func endRows(p progress) []task {
	if len(p.GetTasks()) > 0 {
		return lastTries(slices.Clone(p.GetTasks()))
	}
	return p.GetFailures()
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

// tell prints each end once; of many only the first that did not succeed.
func (v *watcher) tell(ctx context.Context) {
	var news []task
	for _, t := range v.rows() {
		if hasEnded(t) && !v.told[t.GetId()] && len(v.told) < namedEnds {
			v.told[t.GetId()] = true
			news = append(news, t)
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
	shown := v.rows()
	for _, p := range v.progress {
		shown = append(shown, p.GetUnderWay()...)
	}
	for _, t := range shown {
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

// versionsText returns from where to where a task leads; what stays is named once.
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

// comeBack returns the commands that show the same work again.
func (v *watcher) comeBack() string {
	var out []string
	for _, o := range v.orders {
		out = append(out, "garrison intent show "+o.id)
	}
	return strings.Join(out, "; ")
}

// left prints how to come back to work that goes on without the view.
func (s *session) left(ctx context.Context, err error, how string) error {
	switch {
	case errors.Is(err, errWaited) || errors.Is(context.Cause(ctx), errWaited):
		s.say("the work goes on; to come back: %s", how)
		return exit{code: exitTimeout, err: errWaited}
	case errors.Is(err, context.Canceled):
		s.say("left the view; the work goes on; to come back: %s", how)
		s.say("to take back what has not begun: garrison intent cancel INTENT, or garrison task cancel TASK")
		return ended(exitInterrupted)
	}
	return err
}
