package client

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

const (
	// factsAtOnce is how many facts are read at a time.
	factsAtOnce = 500
	// followInterval is when the ledger is read although no bell rang.
	followInterval = 5 * time.Second
	// followRetry is when the ledger is read again after the registry or the bus did not answer.
	followRetry = time.Second
	// confirmFor is for how long a fact must be absent at least before it counts as gone.
	confirmFor, confirmPause = time.Second, 250 * time.Millisecond
)

// Query says which facts of the ledger are read. The zero Query means all.
type Query struct {
	Noun  ledger.Noun // only facts about this noun
	Key   string      // only facts whose key is this, or begins with it and a dot
	After Position    // start behind this position, and detect a ledger that lacks it
	From  uint64      // start at this sequence, if it is behind After
	Below uint64      // end before this sequence; 0 means at the end. Follow ignores it
	Gaps  bool        // continue behind missing facts instead of ending with a *ResetError
}

// Events iterates over the facts that are in the ledger now, in order. An error is the last element; it is a
// *ResetError when the ledger does not continue After, or when facts are missing.
func (c *Client) Events(ctx context.Context, q Query) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := c.newReader(q)
		if _, err := r.read(ctx, yield); err != nil {
			yield(Event{}, err)
		}
	}
}

// Follow iterates over the facts in the ledger and then over new ones as they are recorded, until ctx is done. It waits
// while the bus is unreachable. An error is the last element: a *ResetError, the end of ctx, or that the actor may not
// read the ledger. To resume later, keep Event.Position of the last fact and pass it as Query.After.
func (c *Client) Follow(ctx context.Context, q Query) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		bell, stop, err := c.listen(ctx)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer stop()
		q.Below = 0
		r := c.newReader(q)
		for {
			more, err := r.read(ctx, yield)
			if !more {
				return
			}
			switch {
			case err == nil:
				err = bell.wait(followInterval, 0)
			case fault.Is(err, fault.Unavailable) && ctx.Err() == nil:
				err = bell.wait(followRetry, 0)
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// LedgerEnd returns the sequence of the last fact, or 0 for an empty ledger.
func (c *Client) LedgerEnd(ctx context.Context) (uint64, error) {
	r, err := c.readFacts(ctx, &registryv1.ReadFactsRequest{From: math.MaxUint64, Limit: 1})
	return r.GetEnd(), err
}

// SequenceAt returns the sequence of the first fact that was stored at a time or later, or that of the next fact.
func (c *Client) SequenceAt(ctx context.Context, at time.Time) (uint64, error) {
	r, err := c.readFacts(ctx, &registryv1.ReadFactsRequest{Since: timestamppb.New(at), Limit: 1})
	if err != nil || len(r.GetFacts()) == 0 {
		return r.GetEnd() + 1, err
	}
	return r.GetFacts()[0].GetSequence(), nil
}

// LastEvents returns the last n facts that a query means and keep accepts, in order. A nil keep accepts all. It reads
// backwards, in parts that double, so that the last facts of a long ledger are found fast.
func (c *Client) LastEvents(ctx context.Context, n int, q Query, keep func(Event) bool) ([]Event, error) {
	below := q.Below
	if below == 0 {
		end, err := c.LedgerEnd(ctx)
		if err != nil {
			return nil, err
		}
		below = end + 1
	}
	first := max(1, q.From, q.After.Sequence+1)
	var found [][]Event
	have := 0
	part := uint64(max(factsAtOnce, n))
	if q.Noun == "" && q.Key == "" {
		part = uint64(max(1, n)) // each fact may be one of them
	}
	for ; below > first && have < n; part *= 2 {
		from := max(first, below-min(below, part))
		var events []Event
		for e, err := range c.Events(ctx, Query{Noun: q.Noun, Key: q.Key, Gaps: q.Gaps, From: from, Below: below}) {
			if err != nil {
				return nil, err
			}
			if keep == nil || keep(e) {
				events = append(events, e)
			}
			events = events[max(0, len(events)-n):]
		}
		found, have, below = append(found, events), have+len(events), from
	}
	slices.Reverse(found)
	all := slices.Concat(found...)
	return all[max(0, len(all)-n):], nil
}

// readFacts reads a part of the ledger.
func (c *Client) readFacts(ctx context.Context, q *registryv1.ReadFactsRequest) (*registryv1.ReadFactsResponse, error) {
	return Call[*registryv1.ReadFactsResponse](ctx, c, q)
}

// reader reads the ledger from a position on.
type reader struct {
	c     *Client
	query Query
	whole bool     // every fact is read, so that a missing one is noticed
	seen  Position // the fact that was read last, or was to be read before; none with sequence 0
	ours  bool     // seen matches the query, so that a read from it on begins with it
	next  uint64   // the sequence to continue with
}

func (c *Client) newReader(q Query) *reader {
	everything := q.Noun == "" && q.Key == ""
	return &reader{
		c: c, query: q, whole: everything && !q.Gaps, seen: q.After,
		ours: everything, next: max(1, q.From, q.After.Sequence+1),
	}
}

// read yields every fact that the ledger holds now. It reports whether more are wanted.
func (r *reader) read(ctx context.Context, yield func(Event, error) bool) (more bool, err error) {
	for {
		facts, next, err := r.part(ctx)
		if err != nil {
			return true, err
		}
		for _, f := range facts {
			if r.whole && f.GetSequence() != r.next {
				return true, &ResetError{Last: r.position(), Next: f.GetSequence()}
			}
			e := eventOf(f)
			r.seen, r.ours, r.next = e.Position(), true, e.Sequence+1
			if !yield(e, nil) {
				return false, nil
			}
		}
		if next == 0 {
			return true, nil
		}
		r.next = max(r.next, next) // a part in which nothing matches has no facts
	}
}

// position is behind what was read; it has no id when reading began in the middle.
func (r *reader) position() Position {
	if r.seen.Sequence+1 == r.next {
		return r.seen
	}
	return Position{Sequence: r.next - 1}
}

// part reads the facts behind the last one, and where the next part starts; 0 at the end. It reads the last one again
// where that costs nothing, to notice a ledger that was set back.
func (r *reader) part(ctx context.Context) (facts []*registryv1.StoredFact, next uint64, err error) {
	q := &registryv1.ReadFactsRequest{
		From: r.next, Below: r.query.Below, Noun: string(r.query.Noun), Key: r.query.Key, Limit: factsAtOnce,
	}
	again := r.seen.Sequence > 0 && r.ours && r.seen.Sequence+1 == r.next
	if again {
		q.From = r.seen.Sequence
	} else if err := r.confirm(ctx); err != nil {
		return nil, 0, err
	}
	part, err := r.c.readFacts(ctx, q)
	if err != nil || !again {
		return part.GetFacts(), part.GetNext(), err
	}
	if facts = part.GetFacts(); len(facts) == 0 || !isAt(facts[0], r.seen) {
		return nil, 0, r.confirm(ctx)
	}
	if len(facts) > 1 || part.GetNext() == 0 {
		return facts[1:], part.GetNext(), nil
	}
	q.From = r.next // the next fact does not fit into an answer with the last one
	part, err = r.c.readFacts(ctx, q)
	return part.GetFacts(), part.GetNext(), err
}

// isAt reports whether a fact is the one before a position.
func isAt(f *registryv1.StoredFact, p Position) bool {
	return f.GetSequence() == p.Sequence && (p.ID == "" || f.GetHeaders()[idHeader] == p.ID)
}

// confirm returns a *ResetError when the ledger no longer has the last fact. A replica of the ledger that lags
// behind may lack it too, so that its absence must last longer than that.
func (r *reader) confirm(ctx context.Context) error {
	if r.seen.Sequence == 0 {
		return nil
	}
	for until := time.Now().Add(max(confirmFor, r.c.conn.MayLag())); ; {
		found, err := r.c.readFacts(ctx, &registryv1.ReadFactsRequest{From: r.seen.Sequence, Limit: 1})
		switch {
		case err != nil:
			return err
		case len(found.GetFacts()) > 0 && isAt(found.GetFacts()[0], r.seen):
			return nil
		case len(found.GetFacts()) > 0 || time.Now().After(until):
			return &ResetError{Last: r.seen, Next: 1}
		}
		if err := pause(ctx, confirmPause); err != nil {
			return err
		}
	}
}
