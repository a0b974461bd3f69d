package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Await reads the streams of a bus until every check holds, and returns the checks that
// fail when ctx is done. An intent counts as acknowledged when its publisher says so, or
// when it is stored in INTENTS, because the bus may have acknowledged it. The connection
// is that of the user who provisions the bus, since operators cannot read intents. Await
// skips facts on the foreign subjects, which a scenario stored by hand and no program knows.
func Await(ctx context.Context, core *bus.Conn, acknowledged []string, foreign ...string) []error {
	r := reader{core: core, foreign: foreign}
	for {
		err := r.read(ctx)
		if err != nil && ctx.Err() == nil {
			return []error{err}
		}
		broken := Check(r.facts, append(r.intents, acknowledged...))
		if err == nil && len(broken) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return append(broken,
				fmt.Errorf("check the ledger up to fact %d: %w", r.folded, errors.Join(err, ctx.Err())))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// reader holds what it has read of the streams so far.
type reader struct {
	core    *bus.Conn
	facts   []ledger.Fact
	intents []string // ids
	asked   uint64   // the last sequence of INTENTS that was read
	folded  uint64   // the last sequence of LEDGER that was read
	foreign []string // subjects to skip
}

func (r *reader) read(ctx context.Context) error {
	// Intents first: their decisions are then in the ledger, or still to come.
	err := r.follow(ctx, topology.Intents, r.asked, func(m bus.Message) error {
		r.asked = m.Sequence
		if at, err := topology.ParseIntentSubject(m.Subject); err == nil { // any other is a dead letter
			r.intents = append(r.intents, at.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.follow(ctx, topology.Ledger, r.folded, func(m bus.Message) error {
		r.folded = m.Sequence
		if slices.Contains(r.foreign, m.Subject) {
			return nil
		}
		f, err := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence)
		r.facts = append(r.facts, f)
		return err
	})
}

var errEnd = errors.New("the end of the stream")

// follow passes the messages behind a sequence of a stream to f, up to the stream's present end.
func (r *reader) follow(ctx context.Context, stream string, behind uint64, f func(bus.Message) error) error {
	end, err := r.core.Stream(ctx, stream)
	if err != nil || end.LastSequence <= behind {
		return err
	}
	err = r.core.Replay(ctx, stream, behind+1, func(msgs []bus.Message) error {
		for _, m := range msgs {
			if err := f(m); err != nil {
				return err
			}
			if m.Sequence >= end.LastSequence {
				return errEnd
			}
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		return nil
	}
	return errors.Join(err, ctx.Err())
}
