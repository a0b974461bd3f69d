package view

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	deadlines "github.com/garrison-fleet/garrison/pkg/deadline"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/document"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/opening"
)

// Rows answers about one row and what follows from it.
type Rows struct{ *tables }

// Task returns a copy of a task, the sequence of the last fact on its key, and whether it is known.
func (w *Rows) Task(id string) (*taskv1.Task, uint64, bool) {
	r, ok := w.tasks.Get(id)
	if !ok {
		return nil, w.tasks.Sequence(id), false
	}
	return proto.CloneOf(r.Task), w.tasks.Sequence(id), true
}

// Server returns a copy of a server's record, and whether the server is known.
func (w *Rows) Server(id string) (*dispatcherv1.ServerRecord, bool) {
	s, ok := w.servers.Get(id)
	return proto.CloneOf(s), ok
}

// BusyLimit returns how long critical sections on a server defer a change at most.
func (w *Rows) BusyLimit(server string) time.Duration {
	s, _ := w.servers.Get(server)
	e, _ := w.settings.Get(s.GetEnvironment())
	if own := e.GetBusyLimit(); own != nil {
		return own.AsDuration()
	}
	return deadlines.Busy
}

// Document projects a server's document; false when it has none. The document shares
// the view's records: encode or clone it before the view moves on.
func (w *Rows) Document(server string) (*desiredv1.Document, bool) {
	s, ok := w.servers.Get(server)
	if !ok || s.DocumentGeneration == 0 {
		return nil, false
	}
	rows := document.Rows{ServerID: server, Server: s, Manifest: w.images.manifest}
	rows.Environment, _ = w.settings.Get(s.Environment)
	for _, i := range w.instances.byServer[server] {
		rows.Instances = append(rows.Instances, i)
	}
	for _, r := range w.open[server] {
		if task.UnderWay(r.Task.State) {
			rows.UnderWay = append(rows.UnderWay, r.Task)
		}
		if w.givesUp(r.Task) {
			rows.Unwanted = append(rows.Unwanted, r.Task.Id)
		}
	}
	d := document.Project(rows)
	makeWay(d)
	return d, true
}

// instanceFor returns the instance of a task, if it still exists.
func (w *Rows) instanceFor(t *taskv1.Task) (*dispatcherv1.InstanceRecord, bool) {
	i, ok := w.instances.table.Get(ledger.Key(t.ServerId, t.Agent))
	return i, ok && t.InstanceId != "" && i.InstanceId == t.InstanceId
}

// OfflineSince returns since when a server is offline; nil while it is not.
func (w *Rows) OfflineSince(server string) *timestamppb.Timestamp {
	s, _ := w.servers.Get(server)
	return s.GetOfflineSince()
}

// isDead reports whether a server is dead or forgotten: no further report comes from it.
func (w *Rows) isDead(server string) bool {
	s, ok := w.servers.Get(server)
	return !ok || s.Life == serverv1.Life_LIFE_DEAD
}

// awaitsServer reports whether a task is assigned to a server that is offline, which did not begin it.
func (w *Rows) awaitsServer(t *taskv1.Task) bool {
	return t.State == taskv1.State_STATE_ASSIGNED && w.OfflineSince(t.ServerId) != nil
}

func (w *Rows) serverForAdmission(id string) admission.Server {
	s, _ := w.servers.Get(id)
	server := admission.Server{
		Life: s.GetLife(), Presence: s.GetPresence(), Standing: s.GetStanding(),
		Ahead: s.GetAhead(), Duplicated: s.GetDuplicated(),
	}
	if s.GetOfflineSince() != nil {
		server.Offline = s.OfflineSince.AsTime()
	}
	return server
}

func (w *Rows) agentForAdmission(name string) admission.Agent {
	a, _ := w.agents.Get(name)
	return admission.Agent{Tier: a.GetTier(), Dependencies: a.GetDependencies()}
}

func (w *Rows) opening(i *dispatcherv1.InstanceRecord) Opening {
	s, _ := w.servers.Get(i.ServerId)
	attempt := opening.Due(i, s)
	id, q := opening.ForInstance(i, attempt, s.GetEpoch())
	o := Opening{ID: id, Body: proto.CloneOf(q), Cause: i.DecidedSequence}
	if attempt > 1 {
		o.Cause = s.GetOnlineSequence()
	}
	return o
}

// OnServer returns the server on which a task is under way; false when the task is not under way.
func (w *Rows) OnServer(id string) (server string, underWay bool) {
	r, ok := w.tasks.Get(id)
	if !ok || (r.Task.State != taskv1.State_STATE_ASSIGNED && r.Task.State != taskv1.State_STATE_RUNNING) {
		return "", false
	}
	return r.Task.ServerId, true
}

// budgets returns the keep budgets that hold for a server.
func (w *Rows) budgets(server string) []*rolloutv1.Keep {
	s, ok := w.servers.Get(server)
	if !ok || s.Life != serverv1.Life_LIFE_ALIVE {
		return nil
	}
	e, _ := w.settings.Get(s.Environment)
	return e.GetKeep()
}
