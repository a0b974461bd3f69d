package executor

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/internal/monitor"
)

// backend is the engine and its journal, as far as the link uses them. It implements link.Backend.
type backend struct {
	journal  *journal.Journal
	engine   *engine.Engine
	standing func() monitor.Standing
}

// Offer passes a document to the engine.
func (b *backend) Offer(doc *desiredv1.Document) { b.engine.Offer(doc) }

// Waiting returns the oldest n reports that were not acknowledged.
func (b *backend) Waiting(n int) (out []link.Report, err error) {
	err = b.journal.Read(func(tx *journal.Tx) error {
		waiting, err := tx.Waiting(n)
		for _, p := range waiting {
			out = append(out, link.Report(p))
		}
		return err
	})
	return out, err
}

// Acknowledge removes a report from the outbox.
func (b *backend) Acknowledge(sequence uint64) error {
	return b.journal.Update(func(tx *journal.Tx) error { return tx.Acknowledge(sequence) })
}

// News returns a channel that receives when a report was added.
func (b *backend) News() <-chan struct{} { return b.journal.Outbox() }

// secrets returns the secrets of an agent in clear, by name: those that it has, or gets by a change.
func (b *backend) secrets(agent string) (map[string]string, error) {
	all := map[string]string{}
	return all, b.journal.Read(func(tx *journal.Tx) error {
		i, err := tx.Instance(agent)
		if err == nil && i != nil {
			maps.Copy(all, i.Secrets)
		}
		changes, e := tx.Changes()
		for _, c := range changes {
			if c.Agent == agent {
				maps.Copy(all, c.Secrets)
			}
		}
		return errors.Join(err, e)
	})
}

// Beat returns the content of a beat.
func (b *backend) Beat() (p link.Pulse, err error) {
	is := b.standing()
	p.State, p.Code, p.Reason = beatStates[is.Outcome.Action], is.Outcome.Code, is.Why()
	if is.Outcome.Action == lifecycle.Work && p.Code == "" {
		last, err := b.engine.Busy()
		if err != nil {
			return p, err
		}
		if len(last) > 0 {
			p.State = serverv1.ExecutorState_EXECUTOR_STATE_BUSY
			p.Code, p.Reason = code.CriticalSection, strings.Join(last, "; ")
		}
	}
	p.Agents, p.Looked = b.engine.Seen()
	return p, b.journal.Read(func(tx *journal.Tx) error {
		p.Place, p.Outbox, p.Reset = tx.Position(), tx.OutboxLength(), tx.Note(journal.NoteEmptied)
		return nil
	})
}

// withRoot returns a standing that is suspended while the root can take no change, although documents are followed:
// that reaches health, the status of the server and check alike.
func (x *Executor) withRoot(is monitor.Standing) monitor.Standing {
	if is.Outcome.Action != lifecycle.Work || is.Outcome.Code != "" {
		return is
	}
	if r := fault.RefusalOf(x.root.Usable()); r != nil {
		is.Outcome, is.Detail = lifecycle.Outcome{Action: lifecycle.Suspend, Code: r.GetCode()}, r.GetMessage()
	}
	return is
}

var beatStates = map[lifecycle.Action]serverv1.ExecutorState{
	lifecycle.Work:      serverv1.ExecutorState_EXECUTOR_STATE_RUNNING,
	lifecycle.Suspend:   serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED,
	lifecycle.Rest:      serverv1.ExecutorState_EXECUTOR_STATE_RESTING,
	lifecycle.Uninstall: serverv1.ExecutorState_EXECUTOR_STATE_UNINSTALLING,
}

// asked is the bus as changes ask it. It implements engine.Bus.
type asked struct {
	conn    *bus.Conn
	address topology.ServerAddress
	x       *Executor
}

// Connected reports whether the bus can be reached.
func (a asked) Connected() bool { return a.conn.Connected() }

// Answers reads the server's document, over a new connection where the old one is lost: that one may wait for a minute
// before it tries again. A bus that refuses the server answers.
func (a asked) Answers(ctx context.Context) (err error) {
	if a.conn.Connected() {
		_, err = link.Document(ctx, a.conn, a.address)
	} else {
		_, err = a.x.readDocument(ctx)
	}
	if fault.Is(err, fault.Denied) {
		return nil
	}
	return err
}
