package bus

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	// apartBelow is how many single facts are cheaper one by one than as a batch: each
	// costs one disk sync of about 0.15 ms.
	apartBelow = 64
	// commitWithin bounds one commit of a batch, with all its tries. It is well below the
	// ledger's duplicate window.
	commitWithin = 20 * time.Second
	// believeFor is the age of a unit up to which a message that the stream does not find
	// is believed to be missing. It is half the ledger's duplicate window.
	believeFor = time.Minute
	// firstTry is the wait after the first try whose outcome is open.
	firstTry = 20 * time.Millisecond
	// findsAtOnce bounds how many messages are looked for side by side.
	findsAtOnce = 64
)

// recorder is what a writer needs of its stream.
type recorder interface {
	// record stores messages, all or none and next to each other, and returns the sequence
	// of the last. An error of kind Unavailable leaves the outcome open: the messages may be
	// stored, or may still become so. Any other error is for good: this try stores nothing,
	// and neither does an earlier one of the same messages that is still on its way, since
	// what the ids and guards met stays.
	record(ctx context.Context, msgs []*nats.Msg) (last uint64, err error)
	// find returns the sequence at which m is stored; 0 means that it was not stored within
	// the stream's duplicate window. When another writer used m's id, m gets another one.
	find(ctx context.Context, m *nats.Msg) (uint64, error)
}

// commit records the units and answers each.
func (w *Writer) commit(ctx context.Context, units []*unit) {
	units = alive(units)
	if len(units) == 0 {
		return
	}
	var apart []*unit
	if len(units) <= apartBelow && allSingle(units) {
		apart, units = w.split(units)
	}
	var both errgroup.Group
	if len(apart) > 0 {
		both.Go(func() error { w.commitApart(ctx, apart); return nil })
	}
	if len(units) > 0 {
		once, cancel := context.WithTimeout(ctx, commitWithin)
		defer cancel()
		w.commitTogether(once, units)
	}
	_ = both.Wait() // the units have the errors
}

// split returns the single facts that are recorded one by one, and those that are recorded together. A bus with several
// servers refuses a message while another one under the same guard is on its way to the replicas. Facts under one guard
// that are sent side by side there, such as admissions under a claim, would be stored one after the other, each after
// the wait of a try that was refused. In one batch they go together.
func (w *Writer) split(units []*unit) (apart, together []*unit) {
	if w.several == nil || !w.several() {
		return units, nil
	}
	under := map[string]int{}
	for _, u := range units {
		for _, g := range u.guards {
			under[g]++
		}
	}
	for _, u := range units {
		if slices.ContainsFunc(u.guards, func(g string) bool { return under[g] > 1 }) {
			together = append(together, u)
		} else {
			apart = append(apart, u)
		}
	}
	return apart, together
}

// alive answers the units whose callers have gone.
func alive(units []*unit) []*unit {
	return slices.DeleteFunc(units, func(u *unit) bool {
		if u.ctx.Err() != nil {
			u.done <- result{err: fault.New(fault.Unavailable, "append: %w", u.ctx.Err())}
		}
		return u.ctx.Err() != nil
	})
}

func allSingle(units []*unit) bool {
	return !slices.ContainsFunc(units, func(u *unit) bool { return len(u.msgs) > 1 })
}

// commitApart publishes single facts side by side and waits for all. After the writer was
// stopped it does not wait for a bus that is unreachable or cannot write.
func (w *Writer) commitApart(ctx context.Context, units []*unit) {
	stopped, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainWithin, giveUp) })()
	sideBySide(len(units), apartBelow, func(i int) {
		once, cancel := context.WithCancel(units[i].ctx)
		defer cancel()
		defer context.AfterFunc(stopped, cancel)()
		w.commitTogether(once, units[i:i+1])
	})
}

// commitTogether records the units as one atomic batch. A batch that is refused is tried
// again without the units that are stored already, or in halves, so that one conflict
// fails one unit only.
func (w *Writer) commitTogether(ctx context.Context, units []*unit) {
	last, doubt, err := w.insist(ctx, units)
	switch {
	case err == nil:
		answer(units, last)
	case fault.Is(err, fault.Unavailable):
		answerAll(units, err)
	case doubt || isCode(err, codeBatchDuplicate) || len(units) == 1:
		w.commitRest(ctx, units, doubt, err)
	default:
		w.commitHalves(ctx, units)
	}
}

func (w *Writer) commitHalves(ctx context.Context, units []*unit) {
	half := len(units) / 2
	w.commitTogether(ctx, units[:half])
	w.commitTogether(ctx, units[half:])
}

// commitRest looks for each message of units that were refused, answers the units that are
// stored, by an earlier try or by another writer, and records the others.
func (w *Writer) commitRest(ctx context.Context, units []*unit, doubt bool, refusal error) {
	before := ids(units)
	sequences, err := w.findAll(ctx, messages(units))
	if err != nil {
		answerAll(units, fault.New(fault.Unavailable, "%w; whether it is stored is not known: %w", refusal, err))
		return
	}
	var rest []*unit
	for _, u := range units {
		var stored []uint64
		stored, sequences = sequences[:len(u.msgs)], sequences[len(u.msgs):]
		switch {
		case whole(stored):
			u.done <- result{last: stored[len(stored)-1]}
		case slices.Max(stored) > 0:
			u.done <- result{err: fault.New(fault.Conflict, "part of what was to be recorded is recorded: %w", refusal)}
		case doubt && time.Now().Round(0).Sub(u.born) > believeFor:
			u.done <- result{err: fault.New(fault.Unavailable, "%w; it is too late to know whether it is "+
				"stored", refusal)}
		default:
			rest = append(rest, u)
		}
	}
	switch {
	case len(rest) == 0:
	case len(rest) < len(units), !slices.Equal(ids(units), before): // another writer had used an id; see find
		w.commitTogether(ctx, rest)
	case len(units) > 1:
		w.commitHalves(ctx, units)
	case isCode(refusal, codeBatchDuplicate): // the window passed between the refusal and the look
		answerAll(units, fault.New(fault.Unavailable, "%w; whether it is stored is not known", refusal))
	default:
		answerAll(units, refusal)
	}
}

// whole reports whether messages are stored, all, in order and next to each other.
func whole(sequences []uint64) bool {
	for i, s := range sequences {
		if s == 0 || s != sequences[0]+uint64(i) {
			return false
		}
	}
	return true
}

// insist records the units as one batch and tries again while the outcome is open and the bus has room. doubt
// reports whether an earlier try than the last may have stored them.
func (w *Writer) insist(ctx context.Context, units []*unit) (last uint64, doubt bool, err error) {
	msgs, began := messages(units), time.Now()
	for wait := firstTry; ; wait = min(2*wait, time.Second) {
		last, err = w.stream.record(ctx, msgs)
		if !fault.Is(err, fault.Unavailable) {
			return last, doubt, err
		}
		if refused := full(err, began); refused != nil {
			return 0, doubt, refused
		}
		if doubt = true; isCode(err, codeWrongLastSequenceConstant) || isCode(err, codeDuplicateInProcess) {
			wait = firstTry // what is in the way is stored within a moment
		}
		select {
		case <-ctx.Done():
			return 0, doubt, err
		case <-time.After(wait):
		}
	}
}

// findAll looks for each message and returns their sequences, 0 for one that is not stored.
func (w *Writer) findAll(ctx context.Context, msgs []*nats.Msg) ([]uint64, error) {
	sequences, errs := make([]uint64, len(msgs)), make([]error, len(msgs))
	sideBySide(len(msgs), findsAtOnce, func(i int) {
		for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
			sequences[i], errs[i] = w.stream.find(ctx, msgs[i])
			if !fault.Is(errs[i], fault.Unavailable) || ctx.Err() != nil {
				return
			}
			sleep(ctx, wait)
		}
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return sequences, nil
}

// ids returns the message ids of units.
func ids(units []*unit) (all []string) {
	for _, m := range messages(units) {
		all = append(all, m.Header.Get(nats.MsgIdHdr))
	}
	return all
}

func messages(units []*unit) []*nats.Msg {
	var msgs []*nats.Msg
	for _, u := range units {
		msgs = append(msgs, u.msgs...)
	}
	return msgs
}

// answer answers each unit of a batch that ends at last: a batch is stored without gaps.
func answer(units []*unit, last uint64) {
	for _, u := range slices.Backward(units) {
		u.done <- result{last: last}
		last -= uint64(len(u.msgs))
	}
}

func answerAll(units []*unit, err error) {
	for _, u := range units {
		u.done <- result{err: err}
	}
}

// sideBySide calls f for 0 to n-1, as many at once as atOnce, and waits for all.
func sideBySide(n, atOnce int, f func(int)) {
	slots := make(chan struct{}, min(n, atOnce))
	for i := range n {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			f(i)
		}()
	}
	for range cap(slots) {
		slots <- struct{}{}
	}
}
