package journal

import (
	"encoding/binary"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// MaxOutbox is how many reports wait at most.
const MaxOutbox = 1000

// Pending is a report that was not acknowledged yet.
type Pending struct {
	Sequence uint64
	Kind     string // of topology.Report…
	Data     []byte // garrison.report.v1.Report
}

// Kind returns the kind of a report, as its subject says it.
func Kind(r *reportv1.Report) string {
	switch r.GetBody().(type) {
	case *reportv1.Report_Task:
		return topology.ReportTask
	case *reportv1.Report_Agents:
		return topology.ReportAgents
	case *reportv1.Report_Sysinfo:
		return topology.ReportSysinfo
	case *reportv1.Report_Candidates:
		return topology.ReportCandidates
	default:
		return topology.ReportReceipt
	}
}

// Say numbers a report and puts it into the outbox. A full list that no request
// asked for takes the place of an earlier one that still waits: the newer says all.
func (t *Tx) Say(r *reportv1.Report) error {
	r.Sequence, r.JournalId = t.number(keySequence)+1, t.ID()
	if err := t.setNumber(keySequence, r.Sequence); err != nil {
		return err
	}
	if err := t.coalesce(r); err != nil {
		return err
	}
	data, err := proto.Marshal(r)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	t.said = true
	return t.tx.Bucket(bucketOutbox).Put(binary.BigEndian.AppendUint64(nil, r.Sequence), data)
}

// coalesce makes room for r.
func (t *Tx) coalesce(r *reportv1.Report) error {
	waiting, err := t.reports()
	if err != nil {
		return err
	}
	var drop []uint64
	if unasked(r) {
		for _, w := range waiting {
			if unasked(w) && Kind(w) == Kind(r) {
				drop = append(drop, w.Sequence)
			}
		}
	}
	if len(waiting)-len(drop) >= MaxOutbox {
		drop = append(drop, leastMissed(waiting))
	}
	for _, seq := range drop {
		if err := t.Acknowledge(seq); err != nil {
			return err
		}
	}
	return nil
}

// unasked reports whether a report is a full list that no task waits for.
func unasked(r *reportv1.Report) bool {
	switch b := r.GetBody().(type) {
	case *reportv1.Report_Agents:
		return b.Agents.GetTaskId() == ""
	case *reportv1.Report_Sysinfo:
		return b.Sysinfo.GetTaskId() == ""
	}
	return false
}

// leastMissed chooses what is given up when the outbox is full: the oldest list, or
// else the oldest word that a task runs, or else the oldest of all.
func leastMissed(waiting []*reportv1.Report) uint64 {
	for _, givenUp := range []func(*reportv1.Report) bool{isList, isRunning} {
		if i := slices.IndexFunc(waiting, givenUp); i >= 0 {
			return waiting[i].Sequence
		}
	}
	return waiting[0].Sequence
}

func isList(r *reportv1.Report) bool {
	switch Kind(r) {
	case topology.ReportAgents, topology.ReportSysinfo, topology.ReportCandidates:
		return true
	}
	return false
}

func isRunning(r *reportv1.Report) bool {
	return r.GetTask().GetState() == taskv1.State_STATE_RUNNING
}

func (t *Tx) reports() ([]*reportv1.Report, error) {
	var out []*reportv1.Report
	if t.tx.Bucket(bucketOutbox) == nil { // looked at only, and new
		return nil, nil
	}
	err := t.tx.Bucket(bucketOutbox).ForEach(func(_, v []byte) error {
		r := &reportv1.Report{}
		out = append(out, r)
		return proto.Unmarshal(v, r)
	})
	return out, err
}

// Waiting returns the oldest n reports, in order.
func (t *Tx) Waiting(n int) ([]Pending, error) {
	var out []Pending
	c := t.tx.Bucket(bucketOutbox).Cursor()
	for k, v := c.First(); k != nil && len(out) < n; k, v = c.Next() {
		r := &reportv1.Report{}
		if err := proto.Unmarshal(v, r); err != nil {
			return nil, fmt.Errorf("report %d: %w", binary.BigEndian.Uint64(k), err)
		}
		out = append(out, Pending{Sequence: r.Sequence, Kind: Kind(r), Data: slices.Clone(v)})
	}
	return out, nil
}

// Acknowledge takes a report out of the outbox.
func (t *Tx) Acknowledge(sequence uint64) error {
	return t.tx.Bucket(bucketOutbox).Delete(binary.BigEndian.AppendUint64(nil, sequence))
}

// OutboxLength is how many reports wait.
func (t *Tx) OutboxLength() int {
	n := 0
	c := t.tx.Bucket(bucketOutbox).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		n++
	}
	return n
}

// TasksWaiting returns the tasks whose end still waits to be reported.
func (t *Tx) TasksWaiting() (map[string]bool, error) {
	waiting, err := t.reports()
	out := map[string]bool{}
	for _, r := range waiting {
		if task := r.GetTask(); task != nil && task.GetState() != taskv1.State_STATE_RUNNING {
			out[task.GetTaskId()] = true
		}
	}
	return out, err
}
