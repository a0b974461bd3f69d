package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// batchesWaiting is how many batches wait for their answers at most. The bus stores them one after another, in the
	// order in which one connection sends them.
	batchesWaiting = 8
	// batchWithin bounds the wait for the answer to a batch; the disk may be busy.
	batchWithin = time.Minute
)

// batches writes messages in atomic batches, in order, and sends the next ones while the bus stores the last ones.
type batches struct {
	nc      *nats.Conn
	answers *nats.Subscription
	batch   []*nats.Msg // gathered, and not sent yet
	waiting int         // batches that were sent and not answered
	sent    int         // messages
}

func newBatches(nc *nats.Conn) (*batches, error) {
	answers, err := nc.SubscribeSync(nc.NewInbox())
	return &batches{nc: nc, answers: answers}, err
}

// add takes a message, and sends a batch when it is full.
func (b *batches) add(ctx context.Context, m *nats.Msg) error {
	if b.batch = append(b.batch, m); len(b.batch) < topology.MaxBatch {
		return nil
	}
	return b.send(ctx)
}

// send sends what was gathered as a batch.
func (b *batches) send(ctx context.Context) error {
	if len(b.batch) == 0 {
		return nil
	}
	id := nuid.Next()
	for n, m := range b.batch {
		m.Header["Nats-Batch-Id"] = []string{id}
		m.Header["Nats-Batch-Sequence"] = []string{strconv.Itoa(n + 1)}
		if n == len(b.batch)-1 {
			m.Header["Nats-Batch-Commit"] = []string{"1"}
			m.Reply = b.answers.Subject
		}
		if err := b.nc.PublishMsg(m); err != nil {
			return err
		}
	}
	b.waiting, b.sent, b.batch = b.waiting+1, b.sent+len(b.batch), b.batch[:0]
	return b.await(ctx, batchesWaiting)
}

// finish sends the rest and waits until everything is stored.
func (b *batches) finish(ctx context.Context) error {
	if err := b.send(ctx); err != nil {
		return err
	}
	return b.await(ctx, 0)
}

// await waits until at most so many batches wait for their answers.
func (b *batches) await(ctx context.Context, most int) error {
	for ; b.waiting > most; b.waiting-- {
		once, cancel := context.WithTimeout(ctx, batchWithin)
		answer, err := b.answers.NextMsgWithContext(once)
		cancel()
		if err != nil {
			return fmt.Errorf("await the answer to a batch: %w", err)
		}
		var ack struct{ Error *struct{ Description string } }
		if err := json.Unmarshal(answer.Data, &ack); err != nil || ack.Error != nil {
			return fmt.Errorf("batch: %s", answer.Data)
		}
	}
	return nil
}
