package operator

import (
	"context"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// everything matches each fact at no cost for the bus, however many subjects there are.
const everything = ">"

// reader reads facts that fit, in order.
type reader struct {
	conn   *bus.Conn
	flags  eventFlags
	filter string
	ids    []string // only facts with one of them, or all
	next   uint64
	seen   event // the last fact that was read, to see that the ledger still has it
}

func newReader(conn *bus.Conn, f eventFlags, ids []string) *reader {
	r := &reader{conn: conn, flags: f, filter: everything, ids: ids, next: 1}
	if f.noun != "" {
		r.filter = ledger.NounSubject(ledger.Noun(f.noun))
	}
	return r
}

// taker takes facts as they are read, and reports whether more are wanted.
type taker func([]event) (more bool, err error)

// readAll reads everything that fits and is there now: by key where that is complete, from the end when only the last
// are wanted, and from the beginning otherwise.
func (r *reader) readAll(ctx context.Context, take taker) error {
	if found, err := r.readKey(ctx, take); found || err != nil {
		return err
	}
	return r.begin(ctx, take)
}

// begin reads what is there now, and leaves the reader behind it.
func (r *reader) begin(ctx context.Context, take taker) error {
	if r.flags.limit > 0 && r.flags.last() {
		return r.readLast(ctx, int(r.flags.limit), take)
	}
	if err := r.seek(ctx); err != nil {
		return err
	}
	return r.read(ctx, take)
}

// readKey reads the facts about a key, when a whole id is asked for. An id that is a key is the request of no other
// fact, unless it is an intent's; then, and when it is no key, it reads nothing.
func (r *reader) readKey(ctx context.Context, take taker) (found bool, err error) {
	if len(r.ids) != 1 || !ident.IsUUID(r.ids[0]) || !r.flags.last() {
		return false, nil
	}
	noun := "*"
	if r.flags.noun != "" {
		noun = r.flags.noun
	}
	of := &reader{conn: r.conn, filter: ledger.Prefix + noun + "." + r.ids[0] + ".>", ids: r.ids, next: 1}
	if noun != string(ledger.Intent) {
		first, err := r.conn.DirectGetFrom(ctx, topology.Ledger, of.filter, 1, 1)
		if err != nil || len(first) == 0 || ledger.NounOf(first[0].Subject) == ledger.Intent {
			return false, err
		}
	}
	return true, of.read(ctx, take)
}

// seek finds where to begin.
func (r *reader) seek(ctx context.Context) error {
	r.next = max(1, r.flags.from)
	if r.flags.since.IsZero() {
		return nil
	}
	n, err := r.firstSince(ctx)
	r.next = max(r.next, n)
	return err
}

// firstSince finds the first fact that was stored at a time or later. Facts are stored in the order of time, so that
// halving finds it with a few dozen reads.
func (r *reader) firstSince(ctx context.Context) (uint64, error) {
	end, err := r.end(ctx)
	if err != nil {
		return 0, err
	}
	low, high := uint64(0), end+1
	for high-low > 1 {
		middle := low + (high-low)/2
		m, err := r.conn.DirectGetFrom(ctx, topology.Ledger, everything, middle, 1)
		if err != nil {
			return 0, err
		}
		if len(m) > 0 && m[0].Time.Before(r.flags.since) {
			low = middle
		} else {
			high = middle
		}
	}
	return high, nil
}

// end returns the sequence of the last fact; 0 when there is none.
func (r *reader) end(ctx context.Context) (uint64, error) {
	m, err := r.conn.DirectGetLast(ctx, topology.Ledger, ledger.Prefix+">")
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	return m.Sequence, err
}

// readLast reads backwards, in parts that double, until enough facts fit.
func (r *reader) readLast(ctx context.Context, limit int, take taker) error {
	end, err := r.end(ctx)
	if err != nil {
		return err
	}
	var parts [][]event
	have, below := 0, end+1
	for part := uint64(max(factsAtOnce, limit)); below > 1 && have < limit; part *= 2 {
		from := max(1, below-min(below, part))
		r.next = from
		var found []event
		if err := r.readBelow(ctx, below, func(events []event) (bool, error) {
			found = append(found, events...)
			found = found[max(0, len(found)-limit):]
			return true, nil
		}); err != nil {
			return err
		}
		parts, have, below = append(parts, found), have+len(found), from
	}
	r.next = end + 1
	slices.Reverse(parts)
	all := slices.Concat(parts...)
	if len(all) > 0 {
		r.seen = all[len(all)-1]
	}
	_, err = take(all)
	return err
}

// read reads every fact that fits and is there now.
func (r *reader) read(ctx context.Context, take taker) error {
	return r.readBelow(ctx, 0, take)
}

// readBelow reads the facts that fit below a place, or all when that is 0.
func (r *reader) readBelow(ctx context.Context, below uint64, take taker) error {
	for {
		messages, err := r.conn.DirectGetFrom(ctx, topology.Ledger, r.filter, r.next, factsAtOnce)
		if err != nil {
			return err
		}
		full := len(messages) == factsAtOnce
		var events []event
		for _, m := range messages {
			if below > 0 && m.Sequence >= below {
				full = false
				break
			}
			e := eventOf(m)
			r.next, r.seen = m.Sequence+1, e
			if e.matches(r.ids) {
				events = append(events, e)
			}
		}
		more, err := take(events)
		if err != nil || !more || !full {
			return err
		}
	}
}

// setBack reports whether the ledger does not have the fact any more that was read last: it was set back, as by a
// restored backup.
func (r *reader) setBack(ctx context.Context) (bool, error) {
	if r.seen.Sequence == 0 {
		return false, nil
	}
	m, err := r.conn.DirectGetFrom(ctx, topology.Ledger, everything, r.seen.Sequence, 1)
	if err != nil {
		return false, err
	}
	return len(m) == 0 || eventOf(m[0]).ID != r.seen.ID, nil
}

// follow reads, and reads again when the bell of the ledger rings. A ledger that was set back is read from the start.
func (s *session) follow(ctx context.Context, r *reader, p *eventPrinter) error {
	wake, stop, err := r.listen()
	if err != nil {
		return err
	}
	defer stop()
	limit, last, begin := p.limit, p.last, true
	for {
		back, err := r.setBack(ctx)
		if err == nil && back {
			s.say("reset: the ledger does not have fact %d any more that was read here; it was set back, "+
				"as by a restored backup. Reading it from the start", r.seen.Sequence)
			r.seen, p.limit, p.last, begin = event{}, limit, last, true
		}
		switch {
		case err != nil:
		case begin:
			err = r.begin(ctx, p.add)
		default:
			err = r.read(ctx, p.add)
		}
		if err != nil && !fault.Is(err, fault.Unavailable) {
			return err
		}
		begin = begin && err != nil && r.seen.Sequence == 0
		if err == nil {
			if err := p.flush(); err != nil {
				return err
			}
			p.last, p.limit = false, 0 // what comes from now on is all shown
		}
		if err := wake(ctx); err != nil {
			return err
		}
	}
}

// listen returns a wait for the bell of the ledger, which may be lost.
func (r *reader) listen() (wake func(context.Context) error, stop func(), err error) {
	bell := make(chan struct{}, 1)
	stop, err = r.conn.Subscribe(topology.TailSubject, func(bus.Message) {
		select {
		case bell <- struct{}{}:
		default: // it rings already
		}
	})
	return func(ctx context.Context) error {
		again := time.NewTimer(listenAgain)
		defer again.Stop()
		select {
		case <-ctx.Done():
			return ended(exitInterrupted)
		case <-bell:
		case <-again.C:
		}
		return nil
	}, stop, err
}
