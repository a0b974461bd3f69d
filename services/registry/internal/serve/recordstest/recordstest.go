// Package recordstest makes what the parts of the registry work with for their tests: records over a ledger in memory.
// There is no bus and no goroutine, and the clock stands still until a test moves it.
package recordstest

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// World is records whose ledger is in memory. It is not safe for concurrent use.
type World struct {
	*records.Records
	T     testing.TB
	At    time.Time     // what the clock shows
	Facts []ledger.Fact // the ledger
	Hear  []func([]ledger.Fact)
	Fails string // the code of tasks that fail

	ends map[string]uint64 // the last sequences of keys, by their subjects
}

// New returns an empty world.
func New(t testing.TB) *World {
	t.Helper()
	w := &World{T: t, At: time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC), ends: map[string]uint64{}}
	v, now := view.New(), func() time.Time { return w.At }
	w.Records = &records.Records{
		View: v, Follower: fold.New(nil, v, fold.Options{}), Now: now, NewID: ident.New, Budget: budget.DefaultServer,
		Decider: decide.New(decide.Config{Service: ledger.Registry, Ledger: w, View: w, Writer: w, Now: now}),
	}
	return w
}

// Read calls look: nothing else changes the view.
func (w *World) Read(look func()) { look() }

// Wait returns at once: the view holds every fact of the ledger.
func (w *World) Wait(context.Context, uint64) error { return nil }

// Stream returns where the ledger ends.
func (w *World) Stream(context.Context, string) (bus.Stream, error) {
	return bus.Stream{LastSequence: uint64(len(w.Facts))}, nil
}

// Append records facts, all or none, and folds them. An error of kind Conflict means that a guard does not hold.
func (w *World) Append(ctx context.Context, drafts ...ledger.Draft) (uint64, error) {
	if err := bus.CheckStores(ctx); err != nil {
		return 0, err
	}
	for _, d := range drafts {
		if last := w.last(d.Guard.Subject); d.Guard.Subject != "" && last != d.Guard.Sequence {
			return 0, fault.New(fault.Conflict, "%s is at %d", d.Guard.Subject, last)
		}
	}
	var added []ledger.Fact
	for _, d := range drafts {
		f := d.Fact
		f.Sequence = uint64(len(w.Facts)) + 1
		w.Facts = append(w.Facts, f)
		w.ends[ledger.KeySubject(f.Noun, f.Key)] = f.Sequence
		if added = append(added, f); !w.View.Apply(f) {
			w.T.Errorf("fact %d does not fit: %s %v", f.Sequence, f.Subject(), f.Body)
		}
	}
	for _, hear := range w.Hear {
		hear(added)
	}
	return uint64(len(w.Facts)), nil
}

// last returns the sequence of the last fact with a subject.
func (w *World) last(subject string) (sequence uint64) {
	if !strings.Contains(strings.TrimSuffix(subject, "*"), "*") && strings.HasSuffix(subject, "*") {
		return w.ends[subject] // of one key
	}
	for _, f := range w.Facts {
		if topology.Matches(subject, f.Subject()) {
			sequence = f.Sequence
		}
	}
	return sequence
}

// Fact records a fact of another service.
func (w *World) Fact(noun ledger.Noun, key string, body proto.Message) {
	w.T.Helper()
	f := ledger.Fact{
		Noun: noun, Key: key, Body: body, ID: ident.New(), At: w.At, Source: noun.Writer(), Actor: noun.Writer(),
	}
	if _, err := w.Append(context.Background(), ledger.Free(f)); err != nil {
		w.T.Fatal(err)
	}
}

// Names returns the names of the facts about a key, in their order.
func (w *World) Names(noun ledger.Noun, key string) (names []string) {
	for _, f := range w.Facts {
		if f.Noun == noun && f.Key == key {
			names = append(names, f.Name())
		}
	}
	return names
}

// Call calls a handler of requests as alice, and fails the test when it refuses.
func Call[Q, R any](w *World, handle func(context.Context, bus.Caller, Q) (R, error), q Q) R {
	w.T.Helper()
	r, err := handle(w.T.Context(), bus.Caller{Actor: "alice"}, q)
	if err != nil {
		w.T.Fatalf("%v: %v", q, err)
	}
	return r
}

// Code returns the code with which a handler refuses a request of alice; empty when it does not.
func Code[Q, R any](w *World, handle func(context.Context, bus.Caller, Q) (R, error), q Q) string {
	_, err := handle(w.T.Context(), bus.Caller{Actor: "alice"}, q)
	return CodeOf(err)
}

// Dry calls a handler of requests as alice in a dry run.
func Dry[Q, R any](w *World, handle func(context.Context, bus.Caller, Q) (R, error), q Q) (R, error) {
	return handle(bus.WithDryRun(w.T.Context()), bus.Caller{Actor: "alice"}, q)
}

// CodeOf returns the code of a refusal; empty without an error.
func CodeOf(err error) string {
	if r := fault.RefusalOf(err); err == nil || r != nil {
		return r.GetCode()
	}
	return err.Error()
}
