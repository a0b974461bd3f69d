package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// workers is how many intents are handled side by side: one may decide about the whole fleet.
	workers = 64
	// reportWorkers is how many reports are. A handler spends nearly all of its time waiting for its fact, and the
	// facts that wait together are stored with one disk sync.
	reportWorkers = 512
	// handleWithin bounds one run of a handler.
	handleWithin = 25 * time.Second
	// settleWithin bounds how long a bus that is away is waited for to settle a message.
	settleWithin = 30 * time.Second
	// drainWithin bounds how long stopping waits for messages that are on their way.
	drainWithin = time.Second
	// pushedOutPause is the pause after every pushedOutAtOnce messages that were pushed out. A flood of one
	// sender then takes little of the processor, and another's message waits behind at most the few
	// messages that the stream keeps of each sender.
	pushedOutPause  = time.Millisecond
	pushedOutAtOnce = 8
	// fullPause is the pause between two looks whether further messages can be held.
	fullPause = 10 * time.Millisecond
)

// Handler handles one message. It must be safe to run twice on the same message. Its
// error decides what becomes of the message; see settle.
type Handler func(ctx context.Context, m Message) error

// consuming is one run of Consume.
type consuming struct {
	*Conn
	from      topology.Consumer
	handle    Handler
	waiting   *queues[*delivery]
	held      *held
	letters   *pace.Pace  // of dead letters
	refusals  *logs.Pacer // of lines about them
	overflows *logs.Pacer
}

// Consume hands the messages of a durable consumer to handle until ctx is done. When
// the bus goes away it waits for it.
func (c *Conn) Consume(ctx context.Context, from topology.Consumer, handle Handler) error {
	w := &consuming{
		Conn: c, from: from, handle: handle, waiting: newQueues[*delivery](from.Kept()), held: newHeld(),
		letters: pace.New(topology.DeadLettersKept, time.Minute), refusals: logs.NewPacer(), overflows: logs.NewPacer(),
	}
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, w.waiting.interrupt)()
	g.Go(func() error { w.work(ctx); return nil })
	g.Go(func() error { w.held.keep(ctx); return nil })
	g.Go(func() error {
		for wait := 100 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 5*time.Second) {
			started := time.Now()
			err := w.pull(ctx)
			if ctx.Err() != nil {
				return nil
			}
			c.log.Warn().Err(err).Str("consumer", from.Durable).Msg("consumer interrupted")
			if time.Since(started) > 10*time.Second {
				wait = 100 * time.Millisecond
			}
			sleep(ctx, wait)
		}
		return nil
	})
	err := g.Wait()
	for _, m := range w.waiting.empty() {
		_ = m.nak() // the bus delivers it again at once instead of after topology.AckWait
	}
	return err
}

// Unsettled returns how many messages of a durable consumer are not settled, delivered or not.
func (r *streamReader) Unsettled(ctx context.Context, of topology.Consumer) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m, err := r.session.request(ctx, &nats.Msg{Subject: r.api + ".CONSUMER.INFO." + of.Stream + "." + of.Durable})
	if err != nil {
		return 0, fmt.Errorf("ask about consumer %s: %w", of.Durable, err)
	}
	var info struct {
		Waiting   uint64    `json:"num_pending"`
		Delivered uint64    `json:"num_ack_pending"`
		Error     *struct{} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil || info.Error != nil {
		return 0, fault.New(fault.Unavailable, "ask about consumer %s: %s", of.Durable, m.Data)
	}
	return info.Waiting + info.Delivered, nil
}

// pull requests messages and puts each into its sender's queue, until something breaks.
func (w *consuming) pull(ctx context.Context) error {
	if err := w.WaitConnected(ctx); err != nil {
		return err
	}
	pushedOut := 0
	return w.pullEach(ctx, w.from.Stream, w.from.Durable, func(m *delivery) {
		if !w.held.take(m) {
			return
		}
		out := w.put(m)
		for w.waiting.full() && ctx.Err() == nil {
			sleep(ctx, fullPause)
		}
		if !out {
			return
		}
		if pushedOut++; pushedOut%pushedOutAtOnce == 0 {
			sleep(ctx, pushedOutPause)
		}
	})
}

// put puts a message into its sender's queue, and reports whether it pushed out another one. That
// one needs no answer: the stream has discarded it, and then the bus no longer expects one.
func (w *consuming) put(m *delivery) bool {
	out := w.waiting.put(m)
	if out == nil {
		return false
	}
	w.held.release(out)
	w.overflows.Warn(w.log, topology.SenderOf(out.Subject())).Str(logs.Subject, out.Subject()).
		Int(logs.Count, w.from.Kept()).Msg("more messages than the stream keeps of one sender; the oldest are gone")
	return true
}

// workersOf returns how many messages of a consumer are handled side by side.
func workersOf(c topology.Consumer) int {
	if c.Stream == topology.Reports {
		return reportWorkers
	}
	return workers
}

// work handles messages, many side by side, until ctx is done.
func (w *consuming) work(ctx context.Context) {
	crew := newCrew(workersOf(w.from), func(m *delivery) {
		w.handleOne(ctx, m)
		w.waiting.done(m)
	})
	for {
		m, ok := w.waiting.take(ctx)
		if !ok {
			break
		}
		crew.give(m)
	}
	crew.wait()
}

func (w *consuming) handleOne(ctx context.Context, m *delivery) {
	msg := m.message()
	once, cancel := context.WithTimeout(ctx, handleWithin)
	err := w.handle(once, msg)
	cancel()
	if ctx.Err() != nil {
		_ = m.nak() // stopping: it is delivered again, to another replica or after the restart
		return
	}
	w.held.release(m) // before it is settled: one that is put back may come again at once
	w.settle(ctx, m, msg, err)
}

// idleWorkers is how many workers without work a crew keeps. A new worker first grows its stack to what a handler
// needs, which costs more than most handlers.
const idleWorkers = 64

// crew does work in goroutines, as many at once as it has places.
type crew[M any] struct {
	do      func(M)
	places  chan struct{} // one of each worker
	idle    chan M        // what a worker without work takes
	resting atomic.Int32  // workers without work
	workers sync.WaitGroup
}

func newCrew[M any](places int, do func(M)) *crew[M] {
	return &crew[M]{do: do, places: make(chan struct{}, places), idle: make(chan M)}
}

// give hands work to a worker, and blocks while all places are taken. It is called by one goroutine.
func (c *crew[M]) give(m M) {
	select {
	case c.idle <- m:
		return
	default:
	}
	select {
	case c.idle <- m:
	case c.places <- struct{}{}:
		c.workers.Go(func() { c.work(m) })
	}
}

// work does one thing after another until there are enough workers without work, or wait is called.
func (c *crew[M]) work(m M) {
	defer func() { <-c.places }()
	for ok := true; ok; {
		c.do(m)
		if c.resting.Add(1) > idleWorkers {
			c.resting.Add(-1)
			return
		}
		m, ok = <-c.idle
		c.resting.Add(-1)
	}
}

// wait ends the workers once they have done what was given, and returns then. Nothing is given after that.
func (c *crew[M]) wait() {
	close(c.idle)
	c.workers.Wait()
}
