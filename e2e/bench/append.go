package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
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

// measureAppend compares appends by many goroutines, gathered by the writer, with
// atomic batches of 1,000 ready-made messages, one after another, by one publisher.
func measureAppend(ctx context.Context, s settings) (_ []figure, err error) {
	w, err := newWorld(ctx, s, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	n := s.scaled(100_000)
	var ours, raws []float64
	for range 3 {
		rate, err := rawBatches(ctx, w, n)
		if err != nil {
			return nil, err
		}
		raws = append(raws, rate)
		if rate, err = groupCommit(ctx, w, n); err != nil {
			return nil, err
		}
		ours = append(ours, rate)
	}
	return []figure{{
		"ledger append by group commit, facts/s", spread(ours, "%.0f"), "raw batches: " + spread(raws, "%.0f"),
		ratio(median(ours), median(raws)), ">= 0.7",
	}}, nil
}

func rawBatches(ctx context.Context, w *world, n int) (float64, error) {
	nc, err := w.raw(ledger.Registry)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	msgs := make([]*nats.Msg, n)
	for i := range msgs {
		f := wanted(ident.New(), 1)
		header, data, err := ledger.Encode(f)
		if err != nil {
			return 0, err
		}
		header[nats.MsgIdHdr] = []string{f.ID}
		header["Nats-Expected-Last-Subject-Sequence"] = []string{"0"}
		header["Nats-Expected-Last-Subject-Sequence-Subject"] = []string{ledger.KeySubject(f.Noun, f.Key)}
		msgs[i] = &nats.Msg{Subject: f.Subject(), Header: header, Data: data}
	}
	started := time.Now()
	to, err := newBatches(nc)
	if err != nil {
		return 0, err
	}
	for _, m := range msgs {
		if err := to.add(ctx, m); err != nil {
			return 0, err
		}
		if err := to.await(ctx, 0); err != nil {
			return 0, err
		}
	}
	if err := to.finish(ctx); err != nil {
		return 0, err
	}
	return float64(n) / time.Since(started).Seconds(), nil
}

func groupCommit(ctx context.Context, w *world, n int) (float64, error) {
	conn, err := w.service(ledger.Registry)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	writer := conn.NewWriter()
	go func() { _ = writer.Run(ctx) }()
	return appendAll(ctx, writer, n, func(int) ledger.Draft { return ledger.OnKey(wanted(ident.New(), 1), 0) })
}

// appendAll appends n facts one by one, from many goroutines, and returns the rate.
func appendAll(ctx context.Context, writer *bus.Writer, n int, draft func(int) ledger.Draft) (float64, error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, 1)
	started := time.Now()
	for range 3 * topology.MaxBatch {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if _, err := writer.Append(ctx, draft(int(i-1))); err != nil {
					select {
					case failed <- err:
					default:
					}
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return 0, err
	default:
		return float64(n) / time.Since(started).Seconds(), nil
	}
}
