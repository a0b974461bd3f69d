package dispatcher

import (
	"context"
	"strings"
	"testing"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/task"
)

// assigned gives a world in which one task is under way.
func assigned(t *testing.T) (w *world, d *Dispatcher, server string, open *taskv1.Task) {
	w = newWorld(t)
	d, _ = w.start(Config{})
	server = serverID(1)
	w.enrol(server)
	w.want(server, "shipper", 1, w.image("shipper", "1.0.0"))
	return w, d, server, w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_ASSIGNED)
}

// quarantined gives the reasons of all messages in quarantine.
func (w *world) quarantined() []string {
	msgs, err := w.conn.DirectGetFrom(context.Background(), topology.Quarantine, "garrison.quarantine.*", 1, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, m := range msgs {
		out = append(out, m.Get("Garrison-Reason"))
	}
	return out
}

func TestAReportThatIsRepeatedLeadsToOneFact(t *testing.T) {
	w, d, server, open := assigned(t)
	for range 3 {
		w.report(server, open.Id, taskv1.State_STATE_RUNNING, nil)
	}
	for range 3 {
		w.report(server, open.Id, taskv1.State_STATE_FAILED, &taskv1.Outcome{Code: "PROBE", Reason: "it does not answer"})
	}
	w.report(server, open.Id, taskv1.State_STATE_SUCCEEDED, nil) // too late: it has ended
	got := w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_FAILED)
	if got.Outcome.GetCode() != "PROBE" || got.Reason != "it does not answer" {
		t.Errorf("the outcome is %v, the reason %q", got.Outcome, got.Reason)
	}
	address := topology.ServerAddress{Cell: "main", Server: server}
	w.publish(topology.ReportSubject(address, topology.ReportTask), &reportv1.Report{ServerId: "forged"}) // behind all others: once it is in quarantine, they were handled
	bustest.Eventually(t, "the last report is handled", func() bool { return len(w.quarantined()) == 1 })
	var facts []task.Fact
	for _, f := range w.ledgerFacts() {
		if what := task.FactOf(f.Body); what != "" && f.Key == open.Id {
			facts = append(facts, what)
		}
	}
	if len(facts) != 3 || facts[1] != task.WasStarted || facts[2] != task.HasFailed {
		t.Errorf("the facts are %v, want assigned, started, failed", facts)
	}
}

func TestWhatAReportMayNotSayEndsInQuarantine(t *testing.T) {
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
	w.publish(subject, &reportv1.Report{ServerId: server, Body: &reportv1.Report_Sysinfo{Sysinfo: &reportv1.SysinfoReport{}}})
	bustest.Eventually(t, "four messages in quarantine", func() bool { return len(w.quarantined()) == 4 })
	if got := w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_ASSIGNED); got.Id != open.Id {
		t.Errorf("the task is %v", got)
	}
}

func TestAReportOnATaskThatNobodyKnowsIsPassedOver(t *testing.T) {
	w, d, server, open := assigned(t)
	w.report(server, ident.New(), taskv1.State_STATE_SUCCEEDED, nil)
	w.report(server, open.Id, taskv1.State_STATE_SUCCEEDED, nil) // on the same subject, so handled after it
	w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	if q := w.quarantined(); len(q) > 0 {
		t.Errorf("quarantined: %v", q)
	}
}

func TestAQuarantinedServerIsNotBelieved(t *testing.T) {
	w, d, server, open := assigned(t)
	w.say(ledger.Server, server, &serverv1.Quarantined{Reason: "forged"})
	bustest.Eventually(t, "the dispatcher knows", func() bool {
		var standing serverv1.Standing
		d.fold.Read(func() { s, _ := d.view.Server(server); standing = s.GetStanding() })
		return standing == serverv1.Standing_STANDING_QUARANTINED
	})
	w.report(server, open.Id, taskv1.State_STATE_SUCCEEDED, nil)
	bustest.Eventually(t, "the report is in quarantine", func() bool {
		q := w.quarantined()
		return len(q) == 1 && strings.Contains(q[0], "quarantined")
	})
}

func TestAReportOfADeadServerChangesNothing(t *testing.T) {
	w, d, server, open := assigned(t)
	w.say(ledger.Server, server, &serverv1.Dead{Lost: true})
	bustest.Eventually(t, "the dispatcher knows", func() bool {
		var life serverv1.Life
		d.fold.Read(func() { s, _ := d.view.Server(server); life = s.GetLife() })
		return life == serverv1.Life_LIFE_DEAD
	})
	w.report(server, open.Id, taskv1.State_STATE_SUCCEEDED, nil)
	address := topology.ServerAddress{Cell: "main", Server: server}
	w.publish(topology.ReportSubject(address, topology.ReportTask), &reportv1.Report{ServerId: "forged"}) // behind it: once it is in quarantine, both were handled
	bustest.Eventually(t, "the last report is handled", func() bool { return len(w.quarantined()) == 1 })
	var got *taskv1.Task
	d.fold.Read(func() { got, _, _ = d.view.Task(open.Id) })
	if got.GetState() == taskv1.State_STATE_SUCCEEDED {
		t.Errorf("a dead server's word made it %v", got)
	}
}
