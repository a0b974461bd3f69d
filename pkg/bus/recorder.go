package bus

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	recordOneWithin   = 2 * time.Second
	recordBatchWithin = 5 * time.Second
	findWithin        = 2 * time.Second
)

// The headers of an atomic batch (NATS ADR-50).
const (
	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"
)

// ledgerStream is the recorder of the ledger on the bus.
type ledgerStream struct{ conn *Conn }

func (l ledgerStream) record(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	within := recordBatchWithin
	if len(msgs) == 1 {
		within = recordOneWithin
	}
	once, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	last := msgs[len(msgs)-1]
	if len(msgs) == 1 {
		for _, h := range []string{headerBatchID, headerBatchSequence, headerBatchCommit} {
			delete(last.Header, h)
		}
	} else if err := l.sendBatch(msgs); err != nil {
		return 0, err
	}
	ack, err := l.conn.publishOnce(once, last)
	return ack.Sequence, err
}

// sendBatch sends the messages of an atomic batch but the last, which commits it.
func (l ledgerStream) sendBatch(msgs []*nats.Msg) error {
	id := nuid.Next()
	for i, m := range msgs {
		m.Header[headerBatchID] = []string{id}
		m.Header[headerBatchSequence] = []string{strconv.Itoa(i + 1)}
		delete(m.Header, headerBatchCommit)
		if i == len(msgs)-1 {
			m.Header[headerBatchCommit] = []string{"1"}
			return nil
		}
		if err := l.conn.nc.PublishMsg(m); err != nil {
			return requestError(err)
		}
	}
	return fault.New(fault.Internal, "empty batch")
}

// find publishes an empty message with m's id that can never be stored: its roll-up is none
// that there is. The bus looks at the id first, so it answers either with the sequence of
// the message that has the id, or with a refusal of the roll-up. Unlike a read this is
// answered by the stream's leader, and a newer message on the subject hides nothing.
func (l ledgerStream) find(ctx context.Context, m *nats.Msg) (uint64, error) {
	once, cancel := context.WithTimeout(ctx, findWithin)
	defer cancel()
	ask := &nats.Msg{Subject: m.Subject, Header: nats.Header{
		nats.MsgIdHdr: m.Header[nats.MsgIdHdr],
		"Nats-Rollup": {"never"},
	}}
	ack, err := l.conn.publishOnce(once, ask)
	switch {
	case isCode(err, codeRollup):
		return 0, nil
	case err != nil:
		return 0, err
	case !ack.Duplicate:
		id := m.Header.Get(nats.MsgIdHdr)
		return 0, fault.New(fault.Internal, "the bus stored a question for message %s at %d", id, ack.Sequence)
	}
	return ack.Sequence, nil
}
