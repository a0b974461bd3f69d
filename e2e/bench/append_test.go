package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
)

// wanted returns a fact of the most frequent kind.
func wanted(server string, generation uint64) ledger.Fact {
	return ledger.Fact{
		Noun: ledger.Instance, Key: ledger.Key(server, "beacon"), ID: ident.New(), At: time.Now(),
		Source: ledger.Registry, Actor: "bench",
		Request: ident.New(), Cause: ledger.CausedByClock,
		Body: &instancev1.Wanted{
			InstanceId: server, Generation: generation, IntentId: ident.New(),
			Image: &imagev1.Ref{Id: server, Version: "1.0.0", Digest: make([]byte, 32)},
		},
	}
}

// BenchmarkAppend compares appends by many goroutines, gathered by the writer, with
// atomic batches of 1,000 ready-made messages, one after another, by one publisher.
func BenchmarkAppend(b *testing.B) {
	w := busOnly(b, rig.Options{})
	n := asked.scaled(100_000)
	var ours, raws []float64
	for range rounds {
		raws = append(raws, rawBatches(b, w, n))
		ours = append(ours, groupCommit(b, w, n))
	}
	report(b, figure{
		"ledger append by group commit, facts/s", spread(ours, "%.0f"), "raw batches: " + spread(raws, "%.0f"),
		ratio(median(ours), median(raws)), ">= 0.7",
	})
}

// rawBatches returns the messages per second of batches that were encoded before.
func rawBatches(b *testing.B, w *world, n int) float64 {
	nc := w.raw(ledger.Registry)
	msgs := make([]*nats.Msg, n)
	for i := range msgs {
		f := wanted(ident.New(), 1)
		header, data, err := ledger.Encode(f, 1)
		check(b, err)
		header[nats.MsgIdHdr] = []string{f.ID}
		header["Nats-Expected-Last-Subject-Sequence"] = []string{"0"}
		header["Nats-Expected-Last-Subject-Sequence-Subject"] = []string{ledger.KeySubject(f.Noun, f.Key)}
		msgs[i] = &nats.Msg{Subject: f.Subject(), Header: header, Data: data}
	}
	started := time.Now()
	to := must(newBatches(nc))(b)
	for _, m := range msgs {
		check(b, to.add(b.Context(), m))
		check(b, to.await(b.Context(), 0))
	}
	check(b, to.finish(b.Context()))
	return float64(n) / time.Since(started).Seconds()
}

// groupCommit returns the facts per second that a writer appends.
func groupCommit(b *testing.B, w *world, n int) float64 {
	draft := func(int) ledger.Draft { return ledger.OnKey(wanted(ident.New(), 1), 0) }
	return appendAll(b, w.service(ledger.Registry), n, draft)
}

// appendAll appends n facts one by one, from many goroutines, and returns the rate.
func appendAll(b *testing.B, conn *bus.Conn, n int, draft func(int) ledger.Draft) float64 {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	writer := conn.NewWriter()
	go func() { _ = writer.Run(ctx) }()
	var next atomic.Int64
	var wg sync.WaitGroup
	started := time.Now()
	for range 3 * topology.MaxBatch {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n) && !b.Failed(); i = next.Add(1) {
				if _, err := writer.Append(ctx, draft(int(i-1))); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return float64(n) / time.Since(started).Seconds()
}

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
