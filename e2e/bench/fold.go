package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// records is a view of three nouns with one record for each key, as small as a real view
// can be: the figure is about the fold, not about one service's indexes.
type records struct {
	servers   *fold.Table[*serverv1.Server]
	instances *fold.Table[*instancev1.Instance]
	tasks     *fold.Table[*taskv1.Task]
}

func newRecords() *records {
	return &records{
		fold.NewTable[*serverv1.Server]("server"),
		fold.NewTable[*instancev1.Instance]("instance"),
		fold.NewTable[*taskv1.Task]("task"),
	}
}

func (r *records) Tables() []fold.Stored { return []fold.Stored{r.instances, r.servers, r.tasks} }
func (r *records) Loaded()               {}

func (r *records) Apply(f ledger.Fact) bool {
	switch b := f.Body.(type) {
	case *serverv1.Online:
		s := &serverv1.Server{Id: f.Key, BootId: b.BootId, Presence: serverv1.Presence_PRESENCE_ONLINE}
		r.servers.Put(f.Key, s, f.Sequence)
	case *instancev1.Wanted:
		if i, ok := r.instances.Get(f.Key); ok {
			i.Generation, i.Wanted, i.IntentId = b.Generation, b.Image, b.IntentId
			r.instances.Touch(f.Key, f.Sequence)
			return true
		}
		i := &instancev1.Instance{
			Id: b.InstanceId, Generation: b.Generation, Wanted: b.Image, IntentId: b.IntentId,
		}
		r.instances.Put(f.Key, i, f.Sequence)
	case *taskv1.Queued:
		t := &taskv1.Task{
			Id: f.Key, ServerId: b.ServerId, Agent: b.Agent, To: b.To, State: taskv1.State_STATE_QUEUED,
		}
		r.tasks.Put(f.Key, t, f.Sequence)
	case *taskv1.Succeeded:
		t, ok := r.tasks.Get(f.Key)
		if !ok {
			return false
		}
		t.State, t.Outcome = taskv1.State_STATE_SUCCEEDED, b.Outcome
		r.tasks.Touch(f.Key, f.Sequence)
	default:
		return false
	}
	return true
}

// measureFold compares the fold of a ledger with only reading it, and the start from a
// snapshot with reading the last fact of each key.
func measureFold(ctx context.Context, s settings) (_ []figure, err error) {
	w, err := newWorld(ctx, s, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	n := s.scaled(1_000_000)
	if err := fill(ctx, w, n); err != nil {
		return nil, fmt.Errorf("fill the ledger: %w", err)
	}
	conn, err := w.service(ledger.Registry)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var folds, replays, starts, lasts []float64
	store := filepath.Join(w.Dir, "bench")
	for range 3 {
		for _, m := range []struct {
			into *[]float64
			run  func() (time.Duration, error)
		}{
			{&replays, func() (time.Duration, error) { return rawReplay(ctx, w, n) }},
			{&folds, func() (time.Duration, error) { return foldAll(ctx, conn) }},
			{&lasts, func() (time.Duration, error) { return rawLast(ctx, w) }},
			{&starts, func() (time.Duration, error) { return startFrom(ctx, conn, store) }},
		} {
			took, err := m.run()
			if err != nil {
				return nil, err
			}
			*m.into = append(*m.into, took.Seconds())
		}
	}
	rate := func(seconds []float64) []float64 {
		out := make([]float64, len(seconds))
		for i, t := range seconds {
			out[i] = float64(n) / t
		}
		return out
	}
	return []figure{
		{
			fmt.Sprintf("fold of %d facts of three nouns, facts/s", n),
			spread(rate(folds), "%.0f"),
			"raw replay: " + spread(rate(replays), "%.0f"),
			ratio(median(rate(folds)), median(rate(replays))),
			">= 0.6",
		},
		{
			"start from a snapshot of that, s",
			spread(starts, "%.2f"),
			"last per subject: " + spread(lasts, "%.2f"),
			ratio(median(lasts), median(starts)),
			">= 0.4",
		},
	}, nil
}

// fill appends n facts: of ten, one about a server, three about instances, three tasks queued and three succeeded.
func fill(ctx context.Context, w *world, n int) error {
	conn, err := w.anyone()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	writer := conn.NewWriter()
	go func() { _ = writer.Run(ctx) }()
	_, err = appendAll(ctx, writer, n, func(i int) ledger.Draft { return ledger.Free(fact(i)) })
	return err
}

// fact returns the i-th fact. Tasks succeed after they are queued.
func fact(i int) ledger.Fact {
	group, kind := i/10, i%10
	server := uuid.NewSHA1(uuid.Nil, []byte(fmt.Sprint("server", group%20_000))).String()
	f := ledger.Fact{ID: ident.New(), At: time.Now(), Actor: "bench", Request: server, Cause: ledger.CausedByClock}
	image := &imagev1.Ref{Id: server, Version: "1.0.0", Digest: make([]byte, 32)}
	switch {
	case kind == 0:
		f.Noun, f.Key, f.Body = ledger.Server, server, &serverv1.Online{BootId: server}
	case kind <= 3:
		f.Noun, f.Key = ledger.Instance, ledger.Key(server, fmt.Sprint("agent-", kind))
		f.Body = &instancev1.Wanted{InstanceId: server, Generation: uint64(group), Image: image, IntentId: server}
	default:
		f.Noun, f.Key = ledger.Task, uuid.NewSHA1(uuid.Nil, []byte(fmt.Sprint("task", group%60_000, (kind-4)/2))).
			String()
		f.Body = &taskv1.Queued{
			Verb:       taskv1.Verb_VERB_UPGRADE,
			ServerId:   server,
			Agent:      "agent-1",
			InstanceId: server,
			Generation: uint64(group),
			To:         image,
			IntentId:   server,
		}
		if kind%2 == 1 {
			f.Body = &taskv1.Succeeded{Outcome: &taskv1.Outcome{}}
		}
	}
	f.Source = f.Noun.Writer()
	return f
}

// rawReplay reads the whole ledger by an ordered consumer and decodes nothing.
func rawReplay(ctx context.Context, w *world, n int) (time.Duration, error) {
	return consume(ctx, w, jetstream.DeliverAllPolicy, n)
}

// rawLast reads the last message of each subject and decodes nothing.
func rawLast(ctx context.Context, w *world) (time.Duration, error) {
	return consume(ctx, w, jetstream.DeliverLastPerSubjectPolicy, 0)
}

// consume reads until n messages came or, with n 0, until none is left.
func consume(ctx context.Context, w *world, policy jetstream.DeliverPolicy, n int) (time.Duration, error) {
	nc, err := w.raw(topology.UserProvision)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	started := time.Now()
	consumer, err := js.OrderedConsumer(ctx, topology.Ledger, jetstream.OrderedConsumerConfig{DeliverPolicy: policy})
	if err != nil {
		return 0, err
	}
	it, err := consumer.Messages(jetstream.PullMaxMessages(5000))
	if err != nil {
		return 0, err
	}
	defer it.Stop()
	for seen := 1; ; seen++ {
		m, err := it.Next()
		if err != nil {
			return 0, err
		}
		if seen == n {
			return time.Since(started), nil
		}
		if n > 0 {
			continue
		}
		meta, err := m.Metadata()
		if err != nil {
			return 0, err
		}
		if meta.NumPending == 0 {
			return time.Since(started), nil
		}
	}
}

func foldAll(ctx context.Context, conn *bus.Conn) (time.Duration, error) {
	started := time.Now()
	_, err := fold.RebuildTo(ctx, conn, newRecords(), fold.Options{Service: "bench", Log: zerolog.Nop()}, 0)
	return time.Since(started), err
}

// startFrom measures the start from a snapshot, which its first call writes.
func startFrom(ctx context.Context, conn *bus.Conn, store string) (time.Duration, error) {
	if err := untilReady(ctx, conn, store); err != nil {
		return 0, err
	}
	started := time.Now()
	err := untilReady(ctx, conn, store)
	return time.Since(started), err
}

func untilReady(ctx context.Context, conn *bus.Conn, store string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := fold.New(conn, newRecords(), fold.Options{Service: "bench", Store: store, Log: zerolog.Nop()})
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	select {
	case <-f.Ready():
	case err := <-ended:
		return err
	}
	cancel()
	return <-ended
}
