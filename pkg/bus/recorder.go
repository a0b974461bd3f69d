package bus

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
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
	if err != nil || !ack.Duplicate {
		return ack.Sequence, err
	}
	own, err := l.own(once, last, ack.Sequence)
	if err == nil && !own {
		err = fault.New(fault.Unavailable, "the id of %s was used by another writer", last.Subject)
	}
	return ack.Sequence, err
}

// at reads the message at a place in the ledger.
func (l ledgerStream) at(ctx context.Context, sequence uint64) (Message, error) {
	m, err := l.conn.request(ctx, &nats.Msg{
		Subject: l.conn.api + ".DIRECT.GET." + topology.Ledger, Data: fmt.Appendf(nil, `{"seq":%d}`, sequence),
	})
	if err != nil {
		return Message{}, err
	}
	return stored(m)
}

// own reports whether the message that the bus calls a duplicate of m is m: on its subject, which only
// this service writes. An id belongs to the stream, so that another service could use those of this one and have
// its facts called stored. A message that is not m has its id changed, so that the next try stores it.
func (l ledgerStream) own(ctx context.Context, m *nats.Msg, at uint64) (bool, error) {
	is, err := l.at(ctx, at)
	if err != nil {
		return false, fault.New(fault.Unavailable, "look at the duplicate of %s: %w", m.Subject, err)
	}
	if is.Subject == m.Subject {
		return true, nil
	}
	id := m.Header.Get(nats.MsgIdHdr)
	l.conn.log.Error().Str(logs.Subject, m.Subject).Str("id", id).Str("taken_by", is.Subject).
		Uint64(logs.Sequence, at).Msg("the id of a fact was used by another writer; the fact is recorded under another")
	m.Header[nats.MsgIdHdr] = []string{id + "-" + nuid.Next()}
	return false, nil
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

// find publishes an empty message with m's id that can never be stored, because its roll-up is
// not valid. The bus checks the id first, so it answers either with the sequence of the message
// that has the id, or with a refusal of the roll-up. Unlike a read, the stream's leader answers,
// and a newer message on the subject hides nothing.
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
	if own, err := l.own(once, m, ack.Sequence); !own {
		return 0, err
	}
	return ack.Sequence, nil
}
