package dispatcher

import (
	"context"
	"strings"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metrics"
)

// queues returns how much waits in each queue.
func (d *Dispatcher) queues(documents *queue) map[string]int {
	return map[string]int{"appends": d.writer.Waiting(), "documents": documents.length()}
}

// measure adds the service's metrics to a Set.
func (d *Dispatcher) measure(m *metrics.Set, documents *queue) {
	d.follower.Measure(m)
	d.writer.Measure(m)
	m.Gauge(metrics.QueueDepth, func(context.Context) []metrics.Sample { return metrics.By(d.queues(documents)) })
	m.Gauge(metrics.TasksOpen, func(context.Context) []metrics.Sample {
		var open, underWay, waiting int
		d.follower.Read(func() {
			open, _, _ = d.view.Listing.Counts()
			underWay, waiting = d.view.Queue.UnderWay(), d.view.Queue.Waiting()
		})
		return metrics.By(map[string]int{
			"queued": open - underWay - waiting, "waiting": waiting, "under-way": underWay,
		})
	})
}

// measureEnds counts the tasks that facts end, and times their steps.
func measureEnds(m *metrics.Set, facts []ledger.Fact) {
	for _, f := range facts {
		outcome, code, steps := endOf(f)
		if outcome == "" {
			continue
		}
		m.Add(metrics.TasksEnded, 1, outcome, known(code))
		for _, s := range steps {
			m.Time(metrics.TaskSeconds, s.GetTook().AsDuration().Seconds(), stepWord(s.GetStep()))
		}
	}
}

// endOf returns how a fact ends a task; no outcome for one that ends none.
func endOf(f ledger.Fact) (outcome, code string, steps []*taskv1.StepTime) {
	switch b := f.Body.(type) {
	case *taskv1.Succeeded:
		return f.Name(), "", b.GetOutcome().GetSteps()
	case *taskv1.Failed:
		return f.Name(), b.GetOutcome().GetCode(), b.GetOutcome().GetSteps()
	case *taskv1.Undone:
		return f.Name(), b.GetOutcome().GetCode(), b.GetOutcome().GetSteps()
	case *taskv1.Cancelled:
		return f.Name(), b.GetCode(), nil
	case *taskv1.Expired, *taskv1.Superseded:
		return f.Name(), "", nil
	}
	return "", "", nil
}

// known returns a code as a label: a server may send any text.
func known(text string) string {
	if _, ok := code.Lookup(text); text == "" || ok {
		return text
	}
	return "other"
}

func stepWord(s taskv1.Step) string {
	if _, ok := taskv1.Step_name[int32(s)]; !ok {
		return "other"
	}
	return strings.ToLower(strings.TrimPrefix(s.String(), "STEP_"))
}
