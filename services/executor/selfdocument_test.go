package executor_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/polltest"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func (b *box) store(c *bus.Conn, subject string, data []byte) {
	b.t.Helper()
	if _, err := c.PublishDurable(context.Background(), bus.Durable{Subject: subject, Data: data}); err != nil {
		b.t.Fatal(err)
	}
}

// want puts an image into the document under a new task, and returns the task.
func (b *box) want(m *imagev1.Manifest) (task string) {
	b.t.Helper()
	b.drop(m.Agent)
	task = ident.New()
	b.doc.Entries = append(b.doc.Entries, &desiredv1.Entry{
		Agent: m.Agent, InstanceId: ident.From("instance", b.at.Server, m.Agent), Generation: 1, Image: m, TaskId: task,
		Verb: taskv1.Verb_VERB_UPGRADE, Deadline: timestamppb.New(time.Now().Add(2 * time.Minute)),
	})
	b.write()
	return task
}

// unwant puts a removal into the document under a new task, and returns the task.
func (b *box) unwant(agent string) (task string) {
	b.t.Helper()
	b.drop(agent)
	task = ident.New()
	b.doc.Removals = append(b.doc.Removals,
		&desiredv1.Removal{Agent: agent, InstanceId: ident.From("instance", b.at.Server, agent), TaskId: task})
	b.write()
	return task
}

func (b *box) drop(agent string) {
	b.doc.Entries = slices.DeleteFunc(b.doc.Entries, func(e *desiredv1.Entry) bool { return e.Agent == agent })
	b.doc.Removals = nil
}

func (b *box) write() {
	b.t.Helper()
	b.doc.Generation++
	data, err := proto.Marshal(b.doc)
	if err != nil {
		b.t.Fatal(err)
	}
	b.store(b.dispatcher, topology.DesiredSubject(b.at), data)
}

// ended are the reports of tasks that were read so far.
type ended struct {
	read     map[string]uint64 // by kind of report, the last sequence that was
	ends     map[string]*reportv1.TaskReport
	receipts map[string]bool
}

// ends returns how the tasks ended, as it was reported; a task that ended in two ways is an error.
func (b *box) ends() (map[string]*reportv1.TaskReport, error) {
	return b.ended.ends, b.reports(topology.ReportTask, func(r *reportv1.Report) error {
		task := r.GetTask()
		if task.GetState() == taskv1.State_STATE_RUNNING {
			return nil
		}
		if was := b.ended.ends[task.GetTaskId()]; was != nil && was.GetState() != task.GetState() {
			return fmt.Errorf("task %s is reported as %s and as %s", task.GetTaskId(), was.GetState(), task.GetState())
		}
		b.ended.ends[task.GetTaskId()] = task
		return nil
	})
}

// receipt reports whether a task's receipt was reported.
func (b *box) receipt(task string) (bool, error) {
	err := b.reports(topology.ReportReceipt, func(r *reportv1.Report) error {
		b.ended.receipts[r.GetReceipt().GetTaskId()] = true
		return nil
	})
	return b.ended.receipts[task], err
}

// reports reads the reports of a kind that were not read before.
func (b *box) reports(kind string, each func(*reportv1.Report) error) error {
	for {
		got, err := b.reader.DirectGetFrom(context.Background(), topology.Reports, topology.ReportSubject(b.at, kind),
			b.ended.read[kind]+1, 200)
		if err != nil {
			return err
		}
		for _, m := range got {
			r := &reportv1.Report{}
			if err := bus.Unmarshal(m, r); err != nil {
				return err
			}
			if err := each(r); err != nil {
				return err
			}
			b.ended.read[kind] = m.Sequence
		}
		if len(got) < 200 {
			return nil
		}
	}
}

// everFound returns all that was ever reported of how an agent was.
func (b *box) everFound(agent string) (out []*reportv1.Found) {
	b.t.Helper()
	got, err := b.reader.DirectGetFrom(context.Background(), topology.Reports,
		topology.ReportSubject(b.at, topology.ReportAgents), 1, 1000)
	if err != nil || len(got) == 0 {
		b.t.Fatal(len(got), err)
	}
	for _, m := range got {
		r := &reportv1.Report{}
		if err := bus.Unmarshal(m, r); err != nil {
			b.t.Fatal(err)
		}
		for _, f := range r.GetAgents().GetAgents() {
			if f.GetAgent() == agent {
				out = append(out, f)
			}
		}
	}
	return out
}

// waitEnd waits for a task's end.
func (b *box) waitEnd(task string) (*reportv1.TaskReport, error) {
	var r *reportv1.TaskReport
	var err error
	if !polltest.Within(polltest.Limit, func() bool {
		var ends map[string]*reportv1.TaskReport
		ends, err = b.ends()
		r = ends[task]
		return err != nil || r != nil
	}) {
		return nil, fmt.Errorf("task %s did not end within %s", task, polltest.Limit)
	}
	return r, err
}
