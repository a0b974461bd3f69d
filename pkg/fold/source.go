package fold

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// source is the ledger that a view is folded from.
type source struct {
	conn *bus.Conn
	opts Options

	created  time.Time     // which ledger it is
	accepted uint64        // how many facts it may lack
	durable  bool          // whether the bus acknowledges only what is on its disk
	marked   mark          // the mark that is kept
	contract atomic.Uint32 // in force; 0 before the ledger was found
}

// endOfLedger returns where the ledger ends, for a service that has read up to a sequence. It refuses a bus that only
// newer programs may use.
func (s *source) endOfLedger(ctx context.Context, read uint64) (end bus.Stream, err error) {
	err = s.askWithin(ctx, bus.LeaderSettles+bus.DefaultTimeout, func(ctx context.Context) (e error) {
		end, e = s.conn.StreamFrom(ctx, topology.Ledger, read)
		return e
	})
	if err != nil {
		return end, err
	}
	s.contract.Store(end.Numbers.Contract)
	return end, end.Numbers.Check("the bus")
}

// ask asks the bus until it answers.
func (s *source) ask(ctx context.Context, question func(context.Context) error) error {
	return s.askWithin(ctx, bus.DefaultTimeout, question)
}

// askWithin is ask with the time that one answer may take.
func (s *source) askWithin(ctx context.Context, within time.Duration, question func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, within)
		err := question(once)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("find the ledger: %w (last: %v)", ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// holds reports whether the ledger holds, at position, the fact that was stored there at the given time. A
// ledger that was restored from a backup, or lost facts before they were synced, may end before the position
// or hold another fact there.
func (s *source) holds(ctx context.Context, end bus.Stream, position uint64, stored time.Time) (there bool, err error) {
	if position == 0 || position > end.LastSequence {
		return position == 0, nil
	}
	err = s.ask(ctx, func(ctx context.Context) error {
		msgs, err := s.conn.DirectGetFrom(ctx, topology.Ledger, bus.Everything, position, 1)
		if err != nil {
			return err
		}
		if len(msgs) == 0 { // this replica of the bus is behind the one that returned the end
			return fault.New(fault.Unavailable, "fact %d is not there yet", position)
		}
		there = msgs[0].Sequence == position && msgs[0].Time.Equal(stored)
		return nil
	})
	return there, err
}

// replay replays the ledger, over the gaps in it that were accepted.
func (s *source) replay(ctx context.Context, from uint64, take func([]bus.Message) error) error {
	if s.accepted > 0 {
		return s.conn.ReplayOverGaps(ctx, topology.Ledger, from, take)
	}
	return s.conn.Replay(ctx, topology.Ledger, from, take)
}

// lastThere returns the sequence of the last fact in a ledger that may have gaps.
func (s *source) lastThere(ctx context.Context, end bus.Stream) (last uint64, err error) {
	if s.accepted == 0 {
		return end.LastSequence, nil
	}
	err = s.ask(ctx, func(ctx context.Context) error {
		// With bus.Everything the bus finds nothing when the last facts are missing.
		m, err := s.conn.DirectGetLast(ctx, topology.Ledger, topology.LedgerSubjects)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		last = m.Sequence
		return err
	})
	return last, err
}

// checkLedger refuses a ledger that lacks a fact that this service has read, or that has gaps, unless
// the loss was accepted.
func (s *source) checkLedger(ctx context.Context, end bus.Stream) error {
	kept, err := s.readMark()
	if err != nil {
		return err
	}
	if s.opts.AcceptLedger {
		return s.accept(ctx, kept, end)
	}
	s.marked, s.accepted = kept, kept.Missing
	if err := s.whole(end); err != nil {
		return err
	}
	if kept.Sequence == 0 {
		return nil
	}
	there := kept.Created.Equal(end.Created)
	if there {
		if there, err = s.holds(ctx, end, kept.Sequence, kept.Stored); err != nil {
			return err
		}
	}
	if !there {
		return s.short(kept, end)
	}
	return nil
}

// accept follows the present ledger from now on.
func (s *source) accept(ctx context.Context, kept mark, end bus.Stream) error {
	s.accepted = end.Missing()
	log := s.opts.Log.Warn().Uint64("end", end.LastSequence).Uint64("missing", s.accepted).
		Uint64("known", kept.Sequence)
	if kept.Sequence > 0 && kept.Created.Equal(end.Created) && s.accepted == kept.Missing {
		if there, err := s.holds(ctx, end, kept.Sequence, kept.Stored); err != nil || there {
			s.marked = kept
			log.Msg("the ledger lacks nothing: leave out --accept-ledger")
			return err
		}
	}
	log.Msg("ledger accepted as it is: facts that it lost are given up")
	if s.opts.Store == "" {
		return nil
	}
	return s.writeMark(mark{Created: end.Created.UTC(), Missing: s.accepted})
}

// whole refuses a ledger with more missing facts than were accepted.
func (s *source) whole(end bus.Stream) error {
	if end.Missing() <= s.accepted {
		return nil
	}
	return s.lost(code.LedgerGap, fmt.Sprintf("the ledger ends with fact %d and holds %d facts: "+
		"%d are missing between them; %d of them were accepted",
		end.LastSequence, end.Messages, end.Missing(), s.accepted))
}

// short returns the refusal of a ledger that lacks a fact that this service has read.
func (s *source) short(known mark, end bus.Stream) error {
	at := known.Stored.UTC().Format(time.RFC3339Nano)
	switch {
	case !known.Created.Equal(end.Created):
		return s.lost(code.LedgerShort, fmt.Sprintf("the ledger is another one, made at %s: "+
			"facts 1 to %d of the one made at %s are gone",
			end.Created.UTC().Format(time.RFC3339), known.Sequence, known.Created.UTC().Format(time.RFC3339)))
	case end.LastSequence < known.Sequence:
		return s.lost(code.LedgerShort, fmt.Sprintf("the ledger ends with fact %d, and this service has read fact %d, "+
			"stored at %s: facts %d to %d are gone",
			end.LastSequence, known.Sequence, at, end.LastSequence+1, known.Sequence))
	}
	return s.lost(code.LedgerShort, fmt.Sprintf("the ledger has another fact %d than the one stored at %s "+
		"that this service has read: facts up to %d were lost, and others written in their place",
		known.Sequence, at, known.Sequence))
}

func (s *source) lost(code, message string) error {
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{
		Code: code, Component: s.opts.Service, Message: message,
		Try: "restore the bus from a backup; or, to go on without these facts, start once with --accept-ledger",
	})
}
