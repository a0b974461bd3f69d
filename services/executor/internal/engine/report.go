package engine

import (
	"errors"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/observe"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
)

// reporter writes reports into the journal's outbox.
type reporter struct {
	server, boot string
	journal      *journal.Journal
	observe      *observe.Observer

	looking sync.Mutex // held from a look at the agents until it is reported, so that the newest comes last
	mu      sync.Mutex
	last    *reportv1.AgentsReport // the last reported look
	looked  time.Time              // when the last look began that found the same
	owed    time.Time              // when a list is due because the ends of changes took its place; zero for none
}

// report returns a report without a body; the journal numbers it.
func (p *reporter) report() *reportv1.Report {
	return &reportv1.Report{ServerId: p.server, BootId: p.boot, At: timestamppb.Now()}
}

func (p *reporter) task(id string, s taskv1.State, o *taskv1.Outcome) *reportv1.Report {
	r := p.report()
	r.Body = &reportv1.Report_Task{Task: &reportv1.TaskReport{TaskId: id, State: s, Outcome: o}}
	return r
}

// sayBegun reports that a task has begun, unless it has ended.
func (p *reporter) sayBegun(id string) error {
	return p.journal.Update(func(tx *journal.Tx) error {
		ended, err := tx.Ended(id)
		if err != nil || ended != nil || id == "" {
			return err
		}
		return tx.Say(p.task(id, taskv1.State_STATE_RUNNING, nil))
	})
}

// deferral returns the report that a task waits, or goes on after it waited.
func (p *reporter) deferral(id string, d *taskv1.Deferral) *reportv1.Report {
	r := p.task(id, taskv1.State_STATE_RUNNING, nil)
	r.GetTask().Deferral = proto.CloneOf(d)
	return r
}

func (p *reporter) agents(tx *journal.Tx, found *reportv1.AgentsReport, taskID string) *reportv1.Report {
	r, at := p.report(), tx.Position()
	r.Body = &reportv1.Report_Agents{Agents: &reportv1.AgentsReport{
		Agents: found.GetAgents(), More: found.GetMore(), TaskId: taskID,
		DocumentEpoch: max(at.Epoch, 1), DocumentGeneration: at.Generation,
	}}
	return r
}

func (p *reporter) receipt(rec *change.Record) *reportv1.Report {
	receipt := &reportv1.ReceiptReport{TaskId: rec.TaskID, InstanceId: rec.InstanceID, Agent: rec.Agent}
	for _, x := range rec.Removed {
		receipt.Removed = append(receipt.Removed,
			&reportv1.Removed{Path: strings.ToValidUTF8(x.Path, "?"), LeftBecause: x.LeftBecause})
	}
	r := p.report()
	r.Body = &reportv1.Report_Receipt{Receipt: receipt}
	return r
}

// sayAgents reports what is on the server, always or if it differs from the last report, or is owed.
func (p *reporter) sayAgents(taskID string, always bool) error {
	p.looking.Lock()
	defer p.looking.Unlock()
	began := time.Now()
	found, err := p.observe.Found()
	if err != nil {
		return err
	}
	if p.same(found) && !always && !p.owes(began) {
		p.remember(found, began)
		return nil
	}
	err = p.journal.Update(func(tx *journal.Tx) error { return tx.Say(p.agents(tx, found, taskID)) })
	if err == nil {
		p.remember(found, began)
		p.owe(time.Time{})
	}
	return err
}

// owe sets when a list is due; zero when it was reported.
func (p *reporter) owe(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owed = at
}

// owes reports whether a list is due by a time.
func (p *reporter) owes(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.owed.IsZero() && !now.Before(p.owed)
}

func (p *reporter) same(found *reportv1.AgentsReport) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return proto.Equal(found, p.last)
}

func (p *reporter) remember(found *reportv1.AgentsReport, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.looked = found, began
}

// seen returns the sum of the last reported list, and when the last look began that found the same; zero without one.
func (p *reporter) seen() (sum instance.Sum, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.last.GetAgents() {
		sum.AddFound(f)
	}
	return sum, p.looked
}

// reported returns the last reported list.
func (p *reporter) reported() []*reportv1.Found {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.GetAgents()
}

// endChanges closes changes, and reports how they ended and what is on the server after all of them, in one
// write: the journal has all of it or nothing. Where the ends show all that is new there, the list follows later.
func (p *reporter) endChanges(changes []*steps.Run) error {
	p.looking.Lock()
	defer p.looking.Unlock()
	began := time.Now()
	found, err := p.observe.Found()
	if err != nil {
		return err
	}
	shut := func(tx *journal.Tx) (err error) {
		for _, r := range changes {
			err = errors.Join(err, closeChange(tx, r.Record))
		}
		return err
	}
	brought := p.brought(found, changes)
	say := func(tx *journal.Tx) (err error) {
		if brought == nil {
			err = tx.Say(p.agents(tx, found, ""))
		}
		for _, r := range changes {
			err = errors.Join(err, p.sayEnd(tx, r.Record, brought[r.Record.Agent]))
		}
		return err
	}
	err = p.journal.Update(func(tx *journal.Tx) error { return errors.Join(shut(tx), say(tx)) })
	if err != nil {
		return err
	}
	p.remember(found, began)
	switch {
	case brought == nil:
		p.owe(time.Time{})
	case !p.owes(began.Add(change.ListAfter)): // a list that is owed already is due before
		p.owe(began.Add(change.ListAfter))
	}
	return nil
}

// closeChange takes a change out of the journal and keeps how its task ended.
func closeChange(tx *journal.Tx, r *change.Record) error {
	err := errors.Join(tx.DropChange(r.Agent), steps.ForgetDeferral(tx, r.Agent), forgetInterruptions(tx, r.Agent),
		keepBad(tx, r))
	if r.Failure == nil {
		err = errors.Join(err, store.ForgetAhead(tx, r.To.Digest()))
	}
	if err != nil || r.TaskID == "" {
		return err
	}
	return tx.EndTask(r.TaskID, r.Outcome().State, r.Report())
}

// sayEnd reports how a change ended, and what was found after it, which may be nil.
func (p *reporter) sayEnd(tx *journal.Tx, r *change.Record, found *reportv1.Found) error {
	if r.Removes() && (r.Failure == nil || r.Committed) {
		if err := tx.Say(p.receipt(r)); err != nil {
			return err
		}
	}
	if r.TaskID == "" {
		return nil
	}
	o := r.Report()
	if found != nil {
		o.Shown = &taskv1.Shown{ConfigurationDigest: found.ConfigurationDigest, Kept: found.Kept}
	}
	return tx.Say(p.task(r.TaskID, r.Outcome().State, o))
}
