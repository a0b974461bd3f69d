package dispatcher

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/version"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// The sizes of a part of a list.
const defaultLimit, maxLimit = 100, 1000

// serve answers requests until ctx is done.
func (d *Dispatcher) serve(ctx context.Context) error {
	if !d.ready(ctx) {
		return nil
	}
	descriptor := dispatcherv1.File_garrison_dispatcher_v1_dispatcher_service_proto.Services().ByName("DispatcherService")
	s, err := d.Conn.NewService(ledger.Dispatcher, version.Version, descriptor)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := d.endpoints(s); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (d *Dispatcher) endpoints(s *bus.Service) error {
	if err := bus.Handle(s, "ListTasks", d.listTasks); err != nil {
		return err
	}
	if err := bus.Handle(s, "GetTask", d.getTask); err != nil {
		return err
	}
	if err := bus.Handle(s, "CancelTask", d.cancelTask); err != nil {
		return err
	}
	if err := bus.Handle(s, "GetIntentProgress", d.getIntentProgress); err != nil {
		return err
	}
	if err := bus.Handle(s, "GetDocument", d.getDocument); err != nil {
		return err
	}
	if err := fold.Serve(s, d.fold, version.Version); err != nil {
		return err
	}
	return s.RefuseUnknown()
}

func (d *Dispatcher) listTasks(_ context.Context, _ bus.Caller, q *dispatcherv1.ListTasksRequest) (*dispatcherv1.ListTasksResponse, error) {
	f := view.Filter{Intent: q.IntentId, Server: q.ServerId, Agent: q.Agent, States: q.States, Limit: defaultLimit}
	if n := q.GetPage().GetLimit(); n > 0 {
		f.Limit = int(min(n, maxLimit))
	}
	if c := q.GetPage().GetCursor(); c != "" {
		var err error
		if f.Before, err = strconv.ParseUint(c, 10, 64); err != nil || f.Before == 0 {
			return nil, fault.Refuse(fault.Invalid, &apiv1.Refusal{
				Code: "BAD_CURSOR", Message: fmt.Sprintf("cursor %q is not one that a list gave", c), Try: "garrison task list",
			})
		}
	}
	r := &dispatcherv1.ListTasksResponse{}
	d.fold.Read(func() {
		var next uint64
		if r.Tasks, next = d.view.List(f); next > 0 {
			r.NextCursor = strconv.FormatUint(next, 10)
		}
		d.explain(r.Tasks...)
		d.enliven(r.Tasks...)
		if d.view.Dropped() {
			r.KeptEnded = view.KeepEnded
		}
	})
	return r, nil
}

// explain says of the queued tasks that wait for nothing else that they wait for a free
// place. It is called while the view stands still.
func (d *Dispatcher) explain(tasks ...*taskv1.Task) {
	for _, t := range tasks {
		if t.State == taskv1.State_STATE_QUEUED && t.Reason == "" {
			t.Reason = fmt.Sprintf("waits for its turn: %d of %d tasks are under way", d.view.UnderWay(), d.Concurrency)
		}
	}
}

func (d *Dispatcher) getTask(_ context.Context, _ bus.Caller, q *dispatcherv1.GetTaskRequest) (*dispatcherv1.GetTaskResponse, error) {
	t, err := d.find(q.Task)
	if err != nil {
		return nil, err
	}
	return &dispatcherv1.GetTaskResponse{Task: t}, nil
}

// find finds a task by its id or a prefix that only one has.
func (d *Dispatcher) find(prefix string) (t *taskv1.Task, err error) {
	if prefix == "" {
		return nil, fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: "NO_TASK_NAMED", Message: "no task was named", Try: "garrison task list"})
	}
	d.fold.Read(func() {
		found := d.view.Known(prefix, 2)
		switch len(found) {
		case 1:
			t = d.view.Explained(found[0])
			d.explain(t)
			d.enliven(t)
		case 0:
			err = d.unknownTask(prefix)
		default:
			err = fault.Refuse(fault.Invalid, &apiv1.Refusal{
				Code: "AMBIGUOUS_TASK", Message: fmt.Sprintf("several tasks start with %q", prefix),
				Nearest: found[0].Task.Id + ", " + found[1].Task.Id, Try: "garrison task list",
			})
		}
	})
	return t, err
}

// unknownTask is called while the view stands still.
func (d *Dispatcher) unknownTask(prefix string) error {
	open, ended, _ := d.view.Counts()
	r := &apiv1.Refusal{
		Code: "UNKNOWN_TASK", Try: "garrison task list",
		Message: fmt.Sprintf("no task starts with %q (%d open and %d ended tasks searched; "+
			"the last %d that succeeded and the last %d others are kept here, all are in the ledger)",
			prefix, open, ended, view.KeepEnded, view.KeepEnded),
	}
	for n := min(len(prefix)-1, 8); n >= 4 && r.Nearest == ""; n-- {
		if near := d.view.Known(prefix[:n], 1); len(near) == 1 {
			r.Nearest = near[0].Task.Id
		}
	}
	return fault.Refuse(fault.NotFound, r)
}

// getDocument gives the document that a server should read.
func (d *Dispatcher) getDocument(_ context.Context, _ bus.Caller, q *dispatcherv1.GetDocumentRequest) (*dispatcherv1.GetDocumentResponse, error) {
	r := &dispatcherv1.GetDocumentResponse{}
	var err error
	d.fold.Read(func() {
		doc, ok := d.view.Document(q.ServerId)
		if !ok {
			err = d.noDocument(q.ServerId)
			return
		}
		r.Document = proto.CloneOf(doc)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// noDocument is called while the view stands still.
func (d *Dispatcher) noDocument(server string) error {
	if _, ok := d.view.Server(server); ok {
		return fault.Refuse(fault.NotFound, &apiv1.Refusal{
			Code: "NO_DOCUMENT", Message: fmt.Sprintf("server %s has no document: it did not enrol yet", server), Try: "garrison server show " + ident.Short(server),
		})
	}
	_, _, servers := d.view.Counts()
	r := &apiv1.Refusal{
		Code: "UNKNOWN_SERVER", Try: "garrison server list",
		Message: fmt.Sprintf("no server has the id %q (%d servers searched)", server, servers),
	}
	if len(server) >= 4 {
		r.Nearest = d.view.ServerNear(server[:4])
	}
	return fault.Refuse(fault.NotFound, r)
}
