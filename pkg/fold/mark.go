package fold

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// markEvery is the interval at which the mark is written while facts arrive. A mark names a fact that was
// folded a whole interval before.
const markEvery = time.Second

var markFormat = format.Spec{Kind: "mark of the ledger", Now: 1, Floor: 1, Oldest: 1}

// mark records how far a service has read a ledger. It is kept beside the snapshot, and only while the bus
// acknowledges nothing before it is on the disk: a ledger that lacks the marked fact has lost it.
type mark struct {
	format.Stamp
	Created  time.Time `json:"ledger_created"`
	Sequence uint64    `json:"sequence"`
	Stored   time.Time `json:"stored"`
	Missing  uint64    `json:"missing"` // how many missing facts were accepted
	Sum      string    `json:"sha256"`  // of the mark without it
}

// sum returns the digest of the mark. It detects a flipped bit, which would name a fact that never existed.
func (m mark) sum() string {
	m.Sum = ""
	data, _ := json.Marshal(m) // numbers, times and strings always encode
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

func (f *Follower) markFile() string { return filepath.Join(f.opts.Store, f.opts.Service+".mark") }

// readMark reads the mark; the zero mark when the file is missing or damaged.
func (f *Follower) readMark() (m mark, err error) {
	if f.opts.Store == "" {
		return m, nil
	}
	data, err := os.ReadFile(f.markFile())
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err == nil && m.Sum != m.sum() {
		err = errors.New("checksum is wrong")
	}
	if err != nil {
		f.opts.Log.Warn().Err(err).Str(logs.Path, f.markFile()).
			Msg("mark of the ledger is damaged; a shorter ledger would not be noticed")
		return mark{}, nil
	}
	return m, markFormat.Check(f.markFile(), m.Stamp)
}

// writeMark keeps the mark, whole or not at all.
func (f *Follower) writeMark(m mark) error {
	m.Stamp = markFormat.Stamp()
	m.Sum = m.sum()
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	err = writeWhole(f.markFile(), func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
	if err == nil {
		f.marked = m
	}
	return err
}

// here returns the mark of the present view.
func (f *Follower) here() mark {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return mark{Created: f.created.UTC(), Sequence: f.position, Stored: f.stored.UTC(), Missing: f.accepted}
}

// startMark keeps the mark until stop is called, if there is a store and the bus is known
// to acknowledge only messages on its disk.
func (f *Follower) startMark(ctx context.Context) (stop func()) {
	if f.opts.Store == "" || !f.durable {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.keepMark(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// keepMark writes the mark while the view changes, and once more at the end.
func (f *Follower) keepMark(ctx context.Context) {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	for before := f.here(); ; {
		select {
		case <-ctx.Done():
			f.noteMark(f.here())
			return
		case <-tick.C:
		}
		f.noteMark(before)
		before = f.here()
	}
}

// noteMark writes the mark when it is ahead of the stored one.
func (f *Follower) noteMark(m mark) {
	if m.Sequence <= f.marked.Sequence {
		return
	}
	if err := f.writeMark(m); err != nil {
		f.opts.Log.Warn().Err(err).Msg("mark of the ledger not written")
	}
}

// checkLedger refuses a ledger that lacks a fact that this service has read, or that has gaps, unless
// the loss was accepted.
func (f *Follower) checkLedger(ctx context.Context, end bus.Stream) error {
	kept, err := f.readMark()
	if err != nil {
		return err
	}
	if f.opts.AcceptLedger {
		return f.accept(ctx, kept, end)
	}
	f.marked, f.accepted = kept, kept.Missing
	if err := f.whole(end); err != nil {
		return err
	}
	if kept.Sequence == 0 {
		return nil
	}
	there := kept.Created.Equal(end.Created)
	if there {
		if there, err = f.holds(ctx, end, kept.Sequence, kept.Stored); err != nil {
			return err
		}
	}
	if !there {
		return f.short(kept, end)
	}
	return nil
}

// accept follows the present ledger from now on.
func (f *Follower) accept(ctx context.Context, kept mark, end bus.Stream) error {
	f.accepted = end.Missing()
	log := f.opts.Log.Warn().
		Uint64("end", end.LastSequence).
		Uint64("missing", f.accepted).
		Uint64("known", kept.Sequence)
	if kept.Sequence > 0 && kept.Created.Equal(end.Created) && f.accepted == kept.Missing {
		if there, err := f.holds(ctx, end, kept.Sequence, kept.Stored); err != nil || there {
			f.marked = kept
			log.Msg("the ledger lacks nothing: leave out --accept-ledger")
			return err
		}
	}
	log.Msg("ledger accepted as it is: facts that it lost are given up")
	if f.opts.Store == "" {
		return nil
	}
	return f.writeMark(mark{Created: end.Created.UTC(), Missing: f.accepted})
}

// whole refuses a ledger with more missing facts than were accepted.
func (f *Follower) whole(end bus.Stream) error {
	if end.Missing() <= f.accepted {
		return nil
	}
	return f.lost(code.LedgerGap, fmt.Sprintf("the ledger ends with fact %d and holds %d facts: "+
		"%d are missing between them; %d of them were accepted",
		end.LastSequence, end.Messages, end.Missing(), f.accepted))
}

// short returns the refusal of a ledger that lacks a fact that this service has read.
func (f *Follower) short(known mark, end bus.Stream) error {
	at := known.Stored.UTC().Format(time.RFC3339Nano)
	switch {
	case !known.Created.Equal(end.Created):
		return f.lost(code.LedgerShort, fmt.Sprintf("the ledger is another one, made at %s: "+
			"facts 1 to %d of the one made at %s are gone",
			end.Created.UTC().Format(time.RFC3339), known.Sequence, known.Created.UTC().Format(time.RFC3339)))
	case end.LastSequence < known.Sequence:
		return f.lost(code.LedgerShort, fmt.Sprintf("the ledger ends with fact %d, and this service has read fact %d, "+
			"stored at %s: facts %d to %d are gone",
			end.LastSequence, known.Sequence, at, end.LastSequence+1, known.Sequence))
	}
	return f.lost(code.LedgerShort, fmt.Sprintf("the ledger has another fact %d than the one stored at %s "+
		"that this service has read: facts up to %d were lost, and others written in their place",
		known.Sequence, at, known.Sequence))
}

func (f *Follower) lost(code, message string) error {
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{
		Code: code, Component: f.opts.Service, Message: message,
		Try: "restore the bus from a backup; or, to go on without these facts, start once with --accept-ledger",
	})
}

// lastThere returns the sequence of the last fact in a ledger that may have gaps.
func (f *Follower) lastThere(ctx context.Context, end bus.Stream) (last uint64, err error) {
	if f.accepted == 0 {
		return end.LastSequence, nil
	}
	err = f.ask(ctx, func(ctx context.Context) error {
		// With bus.Everything the bus finds nothing when the last facts are missing.
		m, err := f.conn.DirectGetLast(ctx, topology.Ledger, topology.LedgerSubjects)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		last = m.Sequence
		return err
	})
	return last, err
}
