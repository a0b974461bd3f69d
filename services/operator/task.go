package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
)

type task = *taskv1.Task

var taskListing = listing[task]{
	name: func(t task) string { return t.GetId() },
	columns: []column[task]{
		{title: "ID", value: func(v view, t task) string { return shortID(v, t.GetId()) }},
		{title: "VERB", value: func(_ view, t task) string { return word(t.GetVerb()) }},
		{title: "SERVER", value: func(v view, t task) string { return v.server(t.GetServerId()) }},
		{title: "AGENT", value: func(_ view, t task) string { return t.GetAgent() }},
		{title: "FROM", value: func(_ view, t task) string { return t.GetFrom().GetVersion() }},
		{title: "TO", value: func(_ view, t task) string { return t.GetTo().GetVersion() }},
		{title: "STATE", value: func(_ view, t task) string { return word(t.GetState()) }},
		{title: "SINCE", value: func(v view, t task) string { return age(v, t.GetSince()) }, key: func(t task) string { return stamp(t.GetSince()) }},
		{title: "STEP", value: liveText},
		{title: "NEXT", value: taskNext},
		{title: "REASON", value: func(_ view, t task) string { return taskReason(t) }},
		{title: "ATTEMPT", wide: true, value: func(_ view, t task) string { return fmt.Sprint(t.GetAttempt()) }},
		{title: "QUEUED", wide: true, value: func(_ view, t task) string { return stamp(t.GetQueuedAt()) }},
		{title: "DEADLINE", wide: true, value: func(_ view, t task) string { return stamp(t.GetDeadline()) }},
		{title: "INTENT", wide: true, value: func(_ view, t task) string { return t.GetIntentId() }},
	},
}

// server gives a server's name, when it is known.
func (v view) server(id string) string {
	if n := v.names[id]; n != "" {
		return n
	}
	return id
}

// taskNext says who is to act, and until when.
func taskNext(v view, t task) string {
	switch t.GetState() {
	case taskv1.State_STATE_QUEUED:
		return "assigned " + until(v, t.GetDeadline())
	case taskv1.State_STATE_ASSIGNED:
		return "started " + until(v, t.GetDeadline())
	case taskv1.State_STATE_RUNNING:
		return "ends " + until(v, t.GetDeadline())
	}
	return ""
}

// taskReason says why, with the code and the step when the executor gave them.
func taskReason(t task) string {
	o := t.GetOutcome()
	var out []string
	if t.GetReported() != taskv1.State_STATE_UNSPECIFIED {
		out = append(out, t.GetReason())
	}
	if step := word(o.GetFailedStep()); step != "" {
		out = append(out, "at "+step)
	}
	if o.GetCode() != "" {
		out = append(out, o.GetCode())
	}
	if o.GetReason() != "" {
		out = append(out, o.GetReason())
	} else if t.GetReason() != "" {
		out = append(out, t.GetReason())
	}
	return strings.Join(out, ": ")
}

// hasEnded says whether a task is at one of its ends.
func hasEnded(t task) bool { return t.GetState() >= taskv1.State_STATE_SUCCEEDED }

func (s *session) taskCommands() *cobra.Command {
	return group("task", "Changes of one agent on one server", s.taskListCommand(), s.taskShowCommand(), s.taskWaitCommand(), s.taskCancelCommand())
}

func (s *session) taskListCommand() *cobra.Command {
	var page pageFlags
	var on string
	q := &dispatcherv1.ListTasksRequest{}
	c := &cobra.Command{
		Use: "list", Short: "List tasks, the newest first", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return s.listTasks(c.Context(), page, q, on) },
	}
	page.add(c, 100)
	textVar(c.Flags(), &q.IntentId, "intent", anID("intent"), "only tasks of this intent, by `ID`")
	textVar(c.Flags(), &on, "server", aServer, "only tasks on this `SERVER`")
	textVar(c.Flags(), &q.Agent, "agent", aName("agent"), "only tasks of this `AGENT`")
	wordsVar(c.Flags(), &q.States, "state", "only in these `STATES`")
	return c
}

func (s *session) listTasks(ctx context.Context, page pageFlags, q *dispatcherv1.ListTasksRequest, on string) error {
	if on != "" {
		found, err := s.getServer(ctx, on)
		if err != nil {
			return err
		}
		q.ServerId = found.GetId()
	}
	whole, err := s.askTasks(ctx, page, q)
	if err != nil {
		return err
	}
	if err := s.showTasks(ctx, whole, whole.GetTasks()); err != nil {
		return err
	}
	s.sayMore(whole)
	if n := whole.GetKeptEnded(); n > 0 && whole.GetNextCursor() == "" {
		s.say("the last %d tasks that succeeded and the last %d that ended otherwise are kept; "+
			"older ones are in the ledger: garrison events --noun task", n, n)
	}
	return nil
}

func (s *session) askTasks(ctx context.Context, page pageFlags, q *dispatcherv1.ListTasksRequest) (*dispatcherv1.ListTasksResponse, error) {
	return collect(ctx, page, func(ctx context.Context, p *apiv1.Page) (*dispatcherv1.ListTasksResponse, error) {
		q.Page = p
		return call[*dispatcherv1.ListTasksResponse](ctx, s, "ListTasks", q)
	})
}

// showTasks prints tasks with the names of their servers.
func (s *session) showTasks(ctx context.Context, whole any, tasks []task) error {
	v := s.view()
	if s.output.isTable() {
		v.names = s.serverNames(ctx, tasks)
	}
	return showIn(s, v, taskListing, whole, tasks)
}

const (
	// askedSingly is up to how many servers are asked for one by one, and askedAtOnce how many of them side by side.
	askedSingly = 100
	askedAtOnce = 16
)

// serverNames gives the names of the tasks' servers. One that cannot be found keeps its id.
func (s *session) serverNames(ctx context.Context, tasks []task) map[string]string {
	names := map[string]string{}
	for _, t := range tasks {
		names[t.GetServerId()] = ""
	}
	if len(names) > askedSingly {
		for _, found := range s.allServers(ctx) {
			names[found.GetId()] = found.GetName()
		}
		return names
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(askedAtOnce)
	for _, id := range slices.Collect(maps.Keys(names)) {
		g.Go(func() error {
			if found, err := s.getServer(ctx, id); err == nil {
				mu.Lock()
				defer mu.Unlock()
				names[id] = found.GetName()
			}
			return nil
		})
	}
	_ = g.Wait() // a server that cannot be found keeps its id
	return names
}

// getTask finds a task by id or unique prefix.
func (s *session) getTask(ctx context.Context, id string) (task, error) {
	r, err := call[*dispatcherv1.GetTaskResponse](ctx, s, "GetTask", &dispatcherv1.GetTaskRequest{Task: id})
	return r.GetTask(), err
}

func (s *session) taskShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show TASK", Short: "Show everything about a task: its steps, and the agent's last words when it failed", Args: exactly("TASK"),
		RunE: func(c *cobra.Command, a []string) error {
			t, err := s.getTask(c.Context(), a[0])
			if fault.Is(err, fault.NotFound) {
				t, err = s.pastTask(c.Context(), a[0], err)
			}
			if err != nil {
				return err
			}
			v := s.view()
			v.names = s.serverNames(c.Context(), []task{t})
			return showOne(s, v, taskListing, t,
				[2]string{"FROM-IMAGE", refText(t.GetFrom())}, [2]string{"TO-IMAGE", refText(t.GetTo())},
				[2]string{"STEPS", stepsText(t.GetOutcome())}, [2]string{"LOG", t.GetOutcome().GetLogTail()})
		},
	}
}

func refText(r *imagev1.Ref) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%s sha256:%x", r.GetId(), r.GetDigest())
}

func stepsText(o *taskv1.Outcome) string {
	var out []string
	for _, step := range o.GetSteps() {
		out = append(out, word(step.GetStep())+" "+step.GetTook().AsDuration().Round(time.Millisecond).String())
	}
	return strings.Join(out, ", ")
}

func (s *session) taskWaitCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use: "wait TASK…", Short: "Wait until tasks end; exit code 0 when all succeeded, 5 when some did, 1 when none did",
		Args: func(c *cobra.Command, a []string) error {
			if len(a) == 0 {
				return usage("garrison task wait: TASK is missing. Try: garrison task list")
			}
			return nil
		},
		RunE: func(c *cobra.Command, a []string) error { return s.waitTasks(c.Context(), a, timeout) },
	}
	timeVar(c.Flags(), &timeout, "timeout", time.Hour, 0, "stop waiting after this time, with exit code 7")
	return c
}

func (s *session) waitTasks(ctx context.Context, ids []string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errWaited)
	defer cancel()
	var tasks []task
	answered := false
	for _, id := range ids {
		for {
			t, err := s.getTask(ctx, id)
			if err != nil && !(answered && fault.Is(err, fault.Unavailable)) {
				return s.left(ctx, err, "garrison task show "+id)
			}
			answered = true // from now on a service or a bus that is started anew is waited for
			if err == nil && hasEnded(t) {
				tasks = append(tasks, t)
				break
			}
			if err := pause(ctx, pollEvery); err != nil {
				return s.left(ctx, err, "garrison task show "+id)
			}
		}
	}
	if err := s.showTasks(ctx, &dispatcherv1.ListTasksResponse{}, tasks); err != nil {
		return err
	}
	return ended(tally(tasks).code())
}

func (s *session) taskCancelCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "cancel TASK", Short: "Take back a task that is not assigned yet", Args: exactly("TASK"), PreRunE: prints(s, taskListing),
		RunE: func(c *cobra.Command, a []string) error {
			r, err := call[*dispatcherv1.CancelTaskResponse](c.Context(), s, "CancelTask", &dispatcherv1.CancelTaskRequest{Task: a[0], Reason: reason})
			if err != nil {
				return err
			}
			s.say("task %s cancelled", ident.Short(r.GetTask().GetId()))
			return s.showTasks(c.Context(), nil, []task{r.GetTask()})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why")
	return c
}
