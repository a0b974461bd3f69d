package dispatcher

import (
	"context"
	"errors"
	"strconv"

	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/version"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// The sizes of a page of a list, and how many servers a filter names at most.
const defaultLimit, maxLimit, maxNamed = 100, 1000, 10_000

// api answers requests.
type api struct {
	cfg      Config
	view     *view.View
	follower *fold.Follower
	decider  *decide.Decider
	leader   *leader
	reserved *reservations
	live     *liveReports
}

// serve answers requests until ctx is done.
func (a *api) serve(ctx context.Context) error {
	service := dispatcherv1.File_garrison_dispatcher_v1_dispatcher_service_proto.Services()
	return a.follower.Serve(ctx, version.Version, service.ByName("DispatcherService"), a.handle)
}

func (a *api) handle(s *bus.Service) error {
	return errors.Join(
		bus.Handle(s, "ListTasks", a.listTasks),
		bus.Handle(s, "CountTasks", a.countTasks),
		bus.Handle(s, "GetTask", a.getTask),
		bus.Handle(s, "CancelTask", a.cancelTask),
		bus.Handle(s, "GetIntentProgress", a.getIntentProgress),
		bus.Handle(s, "OpenOutputs", a.openOutputs),
		bus.Handle(s, "GetDocument", a.getDocument),
	)
}

func (a *api) listTasks(
	_ context.Context,
	_ bus.Caller,
	q *dispatcherv1.ListTasksRequest,
) (*dispatcherv1.ListTasksResponse, error) {
	f, err := a.filterOf(q)
	if err != nil {
		return nil, err
	}
	f.Limit = defaultLimit
	if n := q.GetPage().GetLimit(); n > 0 {
		f.Limit = int(min(n, maxLimit))
	}
	if c := q.GetPage().GetCursor(); c != "" {
		if f.Before, err = strconv.ParseUint(c, 10, 64); err != nil || f.Before == 0 {
			return nil, fault.Refusef(fault.Invalid, code.Invalid,
				"invalid cursor %.80q: pass next_cursor of an answer", c).
				Try("garrison task list")
		}
	}
	r := &dispatcherv1.ListTasksResponse{}
	a.follower.Read(func() {
		tasks, next := a.view.Listing.List(f)
		part := page.Take(page.Map(tasks, a.row), f.Limit)
		r.Tasks, r.NextCursor, r.LeftOut = part.Rows, part.Next, part.LeftOut
		if part.Next == "" && next > 0 {
			r.NextCursor = strconv.FormatUint(next, 10)
		}
		if a.view.Listing.Dropped() {
			r.KeptEnded = view.KeepEnded
		}
	})
	return r, nil
}

// filterOf returns the filter of a request without its page.
func (a *api) filterOf(q *dispatcherv1.ListTasksRequest) (view.Filter, error) {
	f := view.Filter{
		Intent: q.GetIntentId(), Server: q.GetServerId(), Agent: q.GetAgent(), States: q.GetStates(),
	}
	if n := len(q.GetServerIds()); n > maxNamed {
		return f, fault.Refusef(fault.Invalid, code.Invalid, "the filter names %d servers; %d are the most", n,
			maxNamed).Try("another filter: --agent AGENT")
	}
	if n := len(q.GetIntentIds()); n > maxNamed {
		return f, fault.Refusef(fault.Invalid, code.Invalid, "the filter names %d intents; %d are the most", n,
			maxNamed).Try("another filter: --agent AGENT")
	}
	f.Servers, f.Intents = setOf(q.GetServerIds()), setOf(q.GetIntentIds())
	if q.GetSlow() {
		f.Only = a.live.slow()
		if len(f.States) == 0 {
			f.States = view.UnderWayStates
		}
	}
	return f, nil
}

// setOf returns a set of ids; nil without any.
func setOf(ids []string) map[string]bool {
	if len(ids) == 0 {
		return nil
	}
	set := map[string]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// row completes a copy of a task. It must be called while the view stands still.
func (a *api) row(_ string, t *taskv1.Task) *taskv1.Task {
	a.explain(t)
	a.live.fill(t)
	return t
}

// explain adds to queued tasks without another reason that they wait for a free slot, and behind how many others. It
// must be called while the view stands still.
func (a *api) explain(tasks ...*taskv1.Task) {
	for _, t := range tasks {
		if t.State != taskv1.State_STATE_QUEUED || t.Reason != "" {
			continue
		}
		place, exact := a.view.Queue.Place(t.Id)
		text := "number " + strconv.Itoa(place) + " in the queue"
		if !exact {
			text = "behind more than " + strconv.Itoa(place) + " in the queue"
		}
		taken := a.view.Queue.SlotsTaken(a.cfg.Concurrency)
		t.Reason = "waits for its turn: " + text + "; " + strconv.Itoa(taken) + " of " +
			strconv.Itoa(a.cfg.Concurrency) + " tasks are under way"
	}
}

func (a *api) getTask(
	ctx context.Context,
	_ bus.Caller,
	q *dispatcherv1.GetTaskRequest,
) (*dispatcherv1.GetTaskResponse, error) {
	t, err := a.find(ctx, q.Task)
	if err != nil {
		return nil, err
	}
	return &dispatcherv1.GetTaskResponse{Task: t}, nil
}

// find returns the task with an id, or with an id that starts with prefix and no other does.
func (a *api) find(ctx context.Context, prefix string) (t *taskv1.Task, err error) {
	if prefix == "" {
		return nil, fault.Refusef(fault.Invalid, code.Malformed, "no task was named").Try("garrison task list")
	}
	err = a.decider.Query(ctx, func() error {
		found := a.view.Listing.Known(prefix, 2)
		switch len(found) {
		case 0:
			return a.unknownTask(prefix)
		case 1:
			t = a.view.Listing.Explained(found[0])
			a.explain(t)
			a.live.fill(t)
			return nil
		}
		return fault.Refusef(fault.Invalid, code.Ambiguous, "several tasks start with %q", prefix).
			Near(found[0].Task.Id + ", " + found[1].Task.Id).Try("garrison task list")
	})
	return t, err
}

// unknownTask must be called while the view stands still.
func (a *api) unknownTask(prefix string) error {
	open, ended, _ := a.view.Listing.Counts()
	near := ""
	for n := min(len(prefix)-1, 8); n >= 4 && near == ""; n-- {
		if found := a.view.Listing.Known(prefix[:n], 1); len(found) == 1 {
			near = found[0].Task.Id
		}
	}
	return fault.Refusef(fault.NotFound, code.NotFound,
		"no task starts with %q (%d open and %d ended tasks searched; "+
			"this view keeps the last %d succeeded and %d other ended tasks; the ledger has all)",
		prefix, open, ended, view.KeepEnded, view.KeepEnded).
		Near(near).Try("garrison task list")
}

// getDocument returns the document that a server should read.
func (a *api) getDocument(
	ctx context.Context,
	_ bus.Caller,
	q *dispatcherv1.GetDocumentRequest,
) (*dispatcherv1.GetDocumentResponse, error) {
	r := &dispatcherv1.GetDocumentResponse{}
	err := a.decider.Query(ctx, func() error {
		doc, ok := a.view.Rows.Document(q.ServerId)
		if !ok {
			return a.noDocument(q.ServerId)
		}
		r.Document = proto.CloneOf(doc)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// noDocument must be called while the view stands still.
func (a *api) noDocument(server string) error {
	if _, ok := a.view.Rows.Server(server); ok {
		return fault.Refusef(fault.NotFound, code.NoDocument,
			"server %s has no document: it has not enrolled yet", server).
			Try("garrison server show " + ident.Short(server))
	}
	_, _, servers := a.view.Listing.Counts()
	near := ""
	if len(server) >= 4 {
		near = a.view.Listing.ServerNear(server[:4])
	}
	return fault.Refusef(fault.NotFound, code.UnknownServer, "no server has the id %q (%d servers searched)",
		server, servers).
		Near(near).Try("garrison server list")
}
