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
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// The codes of a ledger that lost facts.
const (
	CodeLedgerShort = "LEDGER_SHORT" // it lost facts that this service had read, from its end or as a whole
	CodeLedgerGap   = "LEDGER_GAP"   // facts are missing between those that are there
)

// markEvery is how often the mark is written while facts come in. A mark names a fact that
// was folded a whole interval before.
const markEvery = time.Second

var markFormat = format.Spec{Kind: "mark of the ledger", Now: 1, Floor: 1, Oldest: 1}

// mark is how far a service has read a ledger, kept beside its snapshot. It is only made
// of a bus that acknowledges nothing before it is on the disk, so a ledger that lacks the
// fact has lost it.
type mark struct {
	format.Stamp
	Created  time.Time `json:"ledger_created"`
	Sequence uint64    `json:"sequence"`
	Stored   time.Time `json:"stored"`
	Missing  uint64    `json:"missing"` // how many missing facts were accepted
	Sum      string    `json:"sha256"`  // of the mark without it
}

// sum returns the digest of the mark: one bit that flips must not name a fact that never was.
func (m mark) sum() string {
	m.Sum = ""
	data, _ := json.Marshal(m) // numbers, times and strings always encode
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

func (f *Follower) markFile() string { return filepath.Join(f.opts.Store, f.opts.Service+".mark") }

// readMark reads the mark; the zero mark when there is none or it is damaged.
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

// here returns the mark of what the view holds.
func (f *Follower) here() mark {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return mark{Created: f.created.UTC(), Sequence: f.position, Stored: f.stored.UTC(), Missing: f.accepted}
}

// startMark keeps the mark until stop is called, if there is a store and the bus is known
// to acknowledge only what is on its disk.
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

// keepMark writes the mark as the view moves on, and once more at the end.
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

// noteMark writes the mark when it is further than the one that is kept.
func (f *Follower) noteMark(m mark) {
	if m.Sequence <= f.marked.Sequence {
		return
	}
	if err := f.writeMark(m); err != nil {
		f.opts.Log.Warn().Err(err).Msg("mark of the ledger not written")
	}
}

// checkLedger refuses a ledger that lacks what this service has read, or that lacks facts
// between those that it has, unless that was accepted.
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

// accept takes the ledger as it is for the one to follow from now on.
func (f *Follower) accept(ctx context.Context, kept mark, end bus.Stream) error {
	f.accepted = end.Missing()
	log := f.opts.Log.Warn().Uint64("end", end.LastSequence).Uint64("missing", f.accepted).Uint64("known", kept.Sequence)
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

// whole refuses a ledger that lacks facts between those that it has.
func (f *Follower) whole(end bus.Stream) error {
	if end.Missing() <= f.accepted {
		return nil
	}
	return f.lost(CodeLedgerGap, fmt.Sprintf("the ledger ends with fact %d and holds %d facts: "+
		"%d are missing between them; %d of them were accepted",
		end.LastSequence, end.Messages, end.Missing(), f.accepted))
}

// short is the refusal of a ledger that lacks a fact that this service has read.
func (f *Follower) short(known mark, end bus.Stream) error {
	at := known.Stored.UTC().Format(time.RFC3339Nano)
	switch {
	case !known.Created.Equal(end.Created):
		return f.lost(CodeLedgerShort, fmt.Sprintf("the ledger is another one, made at %s: "+
			"facts 1 to %d of the one made at %s are gone",
			end.Created.UTC().Format(time.RFC3339), known.Sequence, known.Created.UTC().Format(time.RFC3339)))
	case end.LastSequence < known.Sequence:
		return f.lost(CodeLedgerShort, fmt.Sprintf("the ledger ends with fact %d, and this service has read fact %d, "+
			"stored at %s: facts %d to %d are gone",
			end.LastSequence, known.Sequence, at, end.LastSequence+1, known.Sequence))
	}
	return f.lost(CodeLedgerShort, fmt.Sprintf("the ledger has another fact %d than the one stored at %s "+
		"that this service has read: facts up to %d were lost, and others written in their place",
		known.Sequence, at, known.Sequence))
}

func (f *Follower) lost(code, message string) error {
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{
		Code: code, Component: f.opts.Service, Message: message,
		Try: "restore the bus from a backup; or, to go on without these facts, start once with --accept-ledger",
	})
}

// lastThere returns the sequence of the last fact that is there, of a ledger that may lack some.
func (f *Follower) lastThere(ctx context.Context, end bus.Stream) (last uint64, err error) {
	if f.accepted == 0 {
		return end.LastSequence, nil
	}
	err = f.ask(ctx, func(ctx context.Context) error {
		m, err := f.conn.DirectGetLast(ctx, topology.Ledger, "garrison.ledger.>")
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		last = m.Sequence
		return err
	})
	return last, err
}
