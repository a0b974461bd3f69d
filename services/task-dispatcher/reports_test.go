package dispatcher

import (
	"context"
	"strings"
	"testing"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// assigned returns a world in which one task is under way.
func assigned(t *testing.T) (w *world, d *Dispatcher, server string, open *taskv1.Task) {
	w = newWorld(t)
	d, _ = w.start(Config{})
	server = serverID(1)
	w.enrol(server)
	w.want(server, "shipper", 1, w.image("shipper", "1.0.0"))
	return w, d, server, w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_ASSIGNED)
}

// deadLetters returns the reasons of all dead letters.
func (w *world) deadLetters() []string {
	msgs, err := w.conn.DirectGetFrom(context.Background(), topology.DeadLetter, topology.DeadLetterSubjects, 1, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, m := range msgs {
		out = append(out, m.Get("Garrison-Reason"))
	}
	return out
}

func TestARepeatedReportLeadsToOneFact(t *testing.T) {
	t.Parallel()
	w, d, server, open := assigned(t)
	for range 3 {
		w.report(server, open.Id, taskv1.State_STATE_RUNNING, nil)
	}
	for range 3 {
		w.report(server, open.Id, taskv1.State_STATE_FAILED,
			&taskv1.Outcome{Code: "PROBE", Reason: "it does not answer"})
	}
	w.report(server, open.Id, taskv1.State_STATE_SUCCEEDED, nil) // too late: it has ended
	got := w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_FAILED)
	if got.Outcome.GetCode() != "PROBE" || got.Reason != "it does not answer" {
		t.Errorf("the outcome is %v, the reason %q", got.Outcome, got.Reason)
	}
	address := topology.ServerAddress{Cell: "main", Server: server}
	// It is handled after all others: once it is a dead letter, they were handled.
	w.publish(topology.ReportSubject(address, topology.ReportTask), &reportv1.Report{ServerId: "forged"})
	polltest.Eventually(t, "the last report is handled", func() bool { return len(w.deadLetters()) == 1 })
	if got := w.factsOf(open.Id); got != "assigned started failed" {
		t.Errorf("the facts are %s", got)
	}
}

// factsOf returns the names of a task's facts, in the order of the ledger.
func (w *world) factsOf(taskID string) string {
	var names []string
	for _, f := range w.ledgerFacts() {
		if f.Noun == ledger.Task && f.Key == taskID {
			names = append(names, f.Name())
		}
	}
	return strings.Join(names, " ")
}

// The report of the start was lost with the bus and comes again, after that of the end.
func TestAStartThatArrivesAfterTheEndIsNotRecorded(t *testing.T) {
	t.Parallel()
	for _, end := range []taskv1.State{
		taskv1.State_STATE_SUCCEEDED, taskv1.State_STATE_FAILED, taskv1.State_STATE_UNDONE,
	} {
		t.Run(end.String(), func(t *testing.T) {
			w, d, server, open := assigned(t)
			w.report(server, open.Id, end, nil)
			w.report(server, open.Id, taskv1.State_STATE_RUNNING, nil) // says nothing new
			address := topology.ServerAddress{Cell: "main", Server: server}
			w.publish(topology.ReportSubject(address, topology.ReportTask), &reportv1.Report{ServerId: "forged"})
			polltest.Eventually(t, "the last report is handled", func() bool { return len(w.deadLetters()) == 1 })
			got := w.awaitTask(d, server, "shipper", 1, end)
			if facts, want := w.factsOf(open.Id), "assigned "+string(task.StateOf(end)); facts != want {
				t.Errorf("the facts are %q, want %q", facts, want)
			}
			if got.Id != open.Id {
				t.Errorf("the task is %v", got)
			}
		})
	}
}

func TestAReportThatIsNotBelievedBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	w, d, server, open := assigned(t)
	other := serverID(2)
	w.enrol(other)
	address := topology.ServerAddress{Cell: "main", Server: server}
	about := func(id string, s taskv1.State) *reportv1.Report_Task {
		return &reportv1.Report_Task{Task: &reportv1.TaskReport{TaskId: id, State: s}}
	}
	subject := topology.ReportSubject(address, topology.ReportTask)
	w.report(other, open.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.publish(subject, &reportv1.Report{ServerId: other, Body: about(open.Id, taskv1.State_STATE_SUCCEEDED)})
	w.publish(subject, &reportv1.Report{ServerId: server, Body: about(open.Id, taskv1.State_STATE_CANCELLED)})
	w.publish(subject,
		&reportv1.Report{ServerId: server, Body: &reportv1.Report_Sysinfo{Sysinfo: &reportv1.SysinfoReport{}}})
	polltest.Eventually(t, "four dead letters", func() bool { return len(w.deadLetters()) == 4 })
	if got := w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_ASSIGNED); got.Id != open.Id {
		t.Errorf("the task is %v", got)
	}
}

func TestAReportOnAnUnknownTaskIsIgnored(t *testing.T) {
	t.Parallel()
	w, d, server, open := assigned(t)
	w.report(server, ident.New(), taskv1.State_STATE_SUCCEEDED, nil)
	w.report(server, open.Id, taskv1.State_STATE_SUCCEEDED, nil) // on the same subject, so handled after it
	w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	if q := w.deadLetters(); len(q) > 0 {
		t.Errorf("dead letters: %v", q)
	}
}

func TestAQuarantinedServerIsNotBelieved(t *testing.T) {
	t.Parallel()
	w, d, server, open := assigned(t)
	w.say(ledger.Server, server, &serverv1.Quarantined{Reason: "forged"})
	polltest.Eventually(t, "the dispatcher knows", func() bool {
		var standing serverv1.Standing
		d.follower.Read(func() { s, _ := d.view.Rows.Server(server); standing = s.GetStanding() })
		return standing == serverv1.Standing_STANDING_QUARANTINED
	})
	w.report(server, open.Id, taskv1.State_STATE_SUCCEEDED, nil)
	polltest.Eventually(t, "the report is a dead letter", func() bool {
		q := w.deadLetters()
		return len(q) == 1 && strings.Contains(q[0], "shut out")
	})
}

func TestAReportOfADeadServerChangesNothing(t *testing.T) {
	t.Parallel()
	w, d, server, open := assigned(t)
	w.say(ledger.Server, server, &serverv1.Dead{Lost: true})
	polltest.Eventually(t, "the dispatcher knows", func() bool {
		var life serverv1.Life
		d.follower.Read(func() { s, _ := d.view.Rows.Server(server); life = s.GetLife() })
		return life == serverv1.Life_LIFE_DEAD
	})
	w.report(server, open.Id, taskv1.State_STATE_SUCCEEDED, nil)
	address := topology.ServerAddress{Cell: "main", Server: server}
	// It is handled last: once it is a dead letter, both were handled.
	w.publish(topology.ReportSubject(address, topology.ReportTask), &reportv1.Report{ServerId: "forged"})
	polltest.Eventually(t, "the last report is handled", func() bool { return len(w.deadLetters()) == 1 })
	var got *taskv1.Task
	d.follower.Read(func() { got, _, _ = d.view.Rows.Task(open.Id) })
	if got.GetState() == taskv1.State_STATE_SUCCEEDED {
		t.Errorf("a dead server's report made it %v", got)
	}
}
