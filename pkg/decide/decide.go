// Package decide records what a service decides: it reads the service's view, takes a decision
// on it, appends the facts with their guards, and waits until the view holds them. When another
// replica recorded something first, it decides again on a fresh view.
//
//	decider := decide.New(decide.Config{Service: ledger.Registry, Ledger: conn, View: follower, Writer: writer})
//	_, err := decider.Do(ctx, func() ([]ledger.Draft, error) {
//		if exists(name) {
//			return nil, refusal // final once the view is up to date
//		}
//		f := decider.Fact(decide.By(caller), ledger.Agent, name, &agentv1.Created{Agent: agent})
//		return []ledger.Draft{ledger.OnKey(f, sequence(name))}, nil
//	})
//
// Guarantees:
//
//  1. A decision runs while the view stands still, as in fold.Follower.Read, so it must not block.
//  2. When Do returns without an error, the view holds the recorded facts, or there were none to
//     record. The facts of one decision are recorded all or none.
//  3. No error of a decision or a query is returned from a stale view: before the first one is
//     believed, the view is brought up to the end of the ledger and the question is asked again.
//  4. A guard that does not hold leads to a new decision on a view that has caught up, at most
//     Tries times in all, with a random pause that doubles. After the last one the error is
//     Unavailable and wraps the conflict.
//  5. Any other error of the append is returned as it is. An error of kind Unavailable leaves open
//     whether the facts were recorded; a decision must be safe to take twice.
//
// A Decider is safe for concurrent use. It starts no goroutine and holds no lock while it waits.
package decide

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// Tries is how many times a decision is taken while other replicas keep recording first.
const Tries = 10

// View is the view that decisions read; *fold.Follower implements it.
type View interface {
	// Read calls look while the view stands still.
	Read(look func())
	// Wait blocks until the view holds the fact at sequence.
	Wait(ctx context.Context, sequence uint64) error
}

// Writer records facts; *bus.Writer implements it.
type Writer interface {
	// Append records facts, all or none, and returns the sequence of the last one.
	Append(ctx context.Context, drafts ...ledger.Draft) (uint64, error)
}

// Ledger knows where the ledger ends; *bus.Conn implements it.
type Ledger interface {
	Stream(ctx context.Context, name string) (bus.Stream, error)
}

// Config says what a Decider works with.
type Config struct {
	Service string // the source of all facts, and the actor of those without a caller
	Ledger  Ledger
	View    View
	Writer  Writer
	Now     func() time.Time // nil means time.Now
	NewID   func() string    // nil means ident.New
	// Allow refuses what a decision of Do would record, while the view stands still; nil means that all is allowed.
	Allow func([]ledger.Draft) error
}

// Decider takes and records decisions for one service.
type Decider struct {
	cfg   Config
	looks looks
}

// New returns a Decider.
func New(cfg Config) *Decider {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NewID == nil {
		cfg.NewID = ident.New
	}
	return &Decider{cfg: cfg, looks: looks{ledger: cfg.Ledger}}
}

// Decision looks at the view and returns the facts to record; none when nothing is to be done.
type Decision func() ([]ledger.Draft, error)

// Do takes a decision, records it, and returns the sequence of its last fact; 0 when it had none.
func (d *Decider) Do(ctx context.Context, decision Decision) (sequence uint64, err error) {
	var final error // of the decision itself, so it is not retried whatever its kind
	err = d.Retry(ctx, func(ctx context.Context) error {
		var drafts []ledger.Draft
		final = d.Query(ctx, func() (e error) { drafts, e = d.allowed(decision); return e })
		if final != nil || len(drafts) == 0 {
			return nil
		}
		var e error
		sequence, e = d.Append(ctx, drafts...)
		return e
	})
	if final != nil {
		return 0, final
	}
	if err != nil {
		return 0, err
	}
	return sequence, nil
}

// allowed takes a decision, and refuses what may not be recorded.
func (d *Decider) allowed(decision Decision) ([]ledger.Draft, error) {
	drafts, err := decision()
	if err == nil && d.cfg.Allow != nil {
		err = d.cfg.Allow(drafts)
	}
	return drafts, err
}

// Query calls question while the view stands still. An error is believed only on a view that is up
// to date: what the question is about may have been recorded by another replica a moment ago.
func (d *Decider) Query(ctx context.Context, question func() error) (err error) {
	d.cfg.View.Read(func() { err = question() })
	if err == nil {
		return nil
	}
	if e := d.CatchUp(ctx); e != nil {
		return e
	}
	d.cfg.View.Read(func() { err = question() })
	return err
}

// Append records facts once, all or none, and waits until the view holds them. It returns the
// sequence of the last one.
func (d *Decider) Append(ctx context.Context, drafts ...ledger.Draft) (uint64, error) {
	sequence, err := d.cfg.Writer.Append(ctx, drafts...)
	if err != nil {
		return 0, err
	}
	return sequence, d.cfg.View.Wait(ctx, sequence)
}

// Retry calls attempt until it returns something else than a conflict without a refusal, at most
// Tries times. Before each further call the view catches up.
func (d *Decider) Retry(ctx context.Context, attempt func(context.Context) error) error {
	var conflict error
	for try := range Tries {
		if try > 0 {
			if err := d.backOff(ctx, try); err != nil {
				return err
			}
		}
		conflict = attempt(ctx)
		if !fault.Is(conflict, fault.Conflict) || fault.RefusalOf(conflict) != nil {
			return conflict
		}
	}
	return fault.New(fault.Unavailable, "another writer recorded first, %d times: %w", Tries, conflict)
}

// backOff pauses for a random time, longer after each try, and catches up.
func (d *Decider) backOff(ctx context.Context, try int) error {
	pause := time.NewTimer(rand.N(time.Millisecond << try))
	defer pause.Stop()
	select {
	case <-pause.C:
		return d.CatchUp(ctx)
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "decide again: %w", ctx.Err())
	}
}

// CatchUp waits until the view holds everything that is in the ledger now. Concurrent calls share one
// question to the bus.
func (d *Decider) CatchUp(ctx context.Context) error {
	end, err := d.looks.end(ctx)
	if err != nil {
		return err
	}
	return d.cfg.View.Wait(ctx, end)
}

// Origin is what a fact follows from. The zero value is the service's own doing.
type Origin struct {
	Actor   string // who asked; empty means the service
	Request string // the intent or request that started everything
	Cause   string // what led to this very fact
	Trace   string // traceparent of the cause
	Note    string // why, in the words of the actor
}

// By returns the origin of facts that a caller asked for.
func By(c bus.Caller) Origin {
	o := Origin{Actor: c.Actor, Trace: c.Trace, Note: c.Note}
	if c.Request != "" {
		o.Request, o.Cause = c.Request, ledger.CausedByRequest(c.Request)
	}
	return o
}

// Fact returns a whole fact, with a new id and the present time.
func (d *Decider) Fact(o Origin, noun ledger.Noun, key string, body proto.Message) ledger.Fact {
	if o.Actor == "" {
		o.Actor = d.cfg.Service
	}
	return ledger.Fact{
		Noun: noun, Key: key, Body: body, ID: d.cfg.NewID(), At: d.cfg.Now(), Source: d.cfg.Service,
		Actor: o.Actor, Request: o.Request, Cause: o.Cause, Trace: o.Trace, Note: o.Note,
	}
}
