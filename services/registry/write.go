package registry

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// tries is how often a decision is made again after the world moved under it.
const tries = 6

// write decides, records and waits until the view holds what was recorded. decide runs
// inside look; it is asked again when a guard did not hold. No drafts mean that nothing
// is to be done.
func (r *Registry) write(ctx context.Context, decide func() ([]ledger.Draft, error)) error {
	var err error
	for range tries {
		var drafts []ledger.Draft
		err = r.look(ctx, func() (e error) { drafts, e = decide(); return e })
		if err != nil || len(drafts) == 0 {
			return err
		}
		var last uint64
		if last, err = r.writer.Append(ctx, drafts...); err == nil {
			return r.follower.Wait(ctx, last)
		}
		if !fault.Is(err, fault.Conflict) {
			return err
		}
		if e := r.catchUp(ctx); e != nil {
			return e
		}
	}
	return err
}

// look calls f while the view stands still. Before an error is believed, the view is
// brought up to date and f is asked again: what the caller means may have been recorded
// by another replica a moment ago.
func (r *Registry) look(ctx context.Context, f func() error) (err error) {
	r.follower.Read(func() { err = f() })
	if err == nil {
		return nil
	}
	if e := r.catchUp(ctx); e != nil {
		return e
	}
	r.follower.Read(func() { err = f() })
	return err
}

// catchUp waits until the view holds everything that is in the ledger now.
func (r *Registry) catchUp(ctx context.Context) error {
	end, err := r.Conn.Stream(ctx, topology.Ledger)
	if err != nil {
		return err
	}
	return r.follower.Wait(ctx, end.LastSequence)
}

// asked makes a fact that a caller asked for.
func (r *Registry) asked(c bus.Caller, noun ledger.Noun, key string, body proto.Message) ledger.Fact {
	return ledger.Fact{
		Noun: noun, Key: key, Body: body, ID: r.NewID(), At: r.Now(), Source: ledger.Registry,
		Actor: c.Actor, Request: c.Request, Cause: ledger.CausedByRequest(c.Request), Trace: c.Trace,
	}
}

// noticed makes a fact that nobody asked for: the registry noticed it.
func (r *Registry) noticed(noun ledger.Noun, key string, body proto.Message, cause string) ledger.Fact {
	return ledger.Fact{
		Noun: noun, Key: key, Body: body, ID: r.NewID(), At: r.Now(), Source: ledger.Registry,
		Actor: ledger.Registry, Cause: cause,
	}
}

// guarded drafts a fact that is only recorded while nothing happened to its key. It must run inside Read.
func (r *Registry) guarded(f ledger.Fact) ledger.Draft {
	return ledger.OnKey(f, r.view.Sequence(f.Noun, f.Key))
}
