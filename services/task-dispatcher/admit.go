package dispatcher

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

const (
	// admitAtOnce is the most tasks of one admission.
	admitAtOnce = 500
	// chainMost is how many are admitted one behind the other at most; more go as one batch.
	chainMost = 16
	// chainWithin is how long a few may take that are admitted one behind the other; it is
	// about what a batch costs, and what is left after it goes as one.
	chainWithin = 15 * time.Millisecond
	// quickAdmission is how long an admission may take without a pause behind it.
	quickAdmission = 5 * time.Millisecond
	// anyAssigned matches the assigned facts of all tasks.
	anyAssigned = ledger.Prefix + string(ledger.Task) + ".*.assigned"
)

// admit lets the next tasks go. The limit is kept over all dispatchers by a guard: an
// admission is only recorded if no other was since the view on which it was decided.
func (d *Dispatcher) admit(ctx context.Context) (time.Duration, error) {
	var tasks []view.Admission
	var assigned uint64
	d.fold.Read(func() {
		all, last := d.view.Admissions(d.Concurrency, admitAtOnce)
		assigned = last
		for _, t := range all {
			if d.claims.take(t.ID) {
				tasks = append(tasks, t)
			}
		}
	})
	defer func() {
		for _, t := range tasks {
			d.claims.give(t.ID)
		}
	}()
	if len(tasks) == 0 {
		return never, nil
	}
	began := time.Now()
	last, err := d.assign(ctx, tasks, assigned)
	took := time.Since(began)
	if last > 0 {
		if e := d.fold.Wait(ctx, last); e != nil {
			return 0, e
		}
	}
	if err != nil {
		return 0, err
	}
	d.Log.Info().Int(logs.Count, len(tasks)).Dur(logs.Took, took).Msg("tasks assigned")
	if took > quickAdmission {
		// The bus looks for the guard among the subjects of all tasks there ever were: 0.1 ms
		// for each 1,000 (measured). A pause leaves it time for others, and gathers more for the next.
		wait(ctx, nil, took)
	}
	return 0, nil
}

// assign records an admission. A few go one behind the other, each guarded by the one
// before, while that is quicker than a batch. Of a batch the first is guarded by the limit,
// the others each by its own key.
func (d *Dispatcher) assign(ctx context.Context, tasks []view.Admission, assigned uint64) (last uint64, err error) {
	until := timestamppb.New(d.Now().Add(d.TaskDeadline))
	drafts := make([]ledger.Draft, len(tasks))
	for n, t := range tasks {
		f := d.fact(t.ID, &taskv1.Assigned{Deadline: until}, origin{request: t.Intent, cause: ledger.CausedByFact(t.Guard)})
		drafts[n] = ledger.OnKey(f, t.Guard)
	}
	for began := time.Now(); len(drafts) > 0; {
		n := 1
		if len(drafts) > chainMost || time.Since(began) > chainWithin {
			n = len(drafts)
		}
		drafts[0].Guard = ledger.Guard{Subject: anyAssigned, Sequence: assigned}
		if assigned, err = d.writer.Append(ctx, drafts[:n]...); err != nil {
			return last, err
		}
		last, drafts = assigned, drafts[n:]
	}
	return last, nil
}
