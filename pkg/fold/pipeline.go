package fold

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// chunk is a run of messages, decoded.
type chunk struct {
	facts  []ledger.Fact
	last   uint64            // the sequence of the last message
	stored time.Time         // when the last message was stored
	unread map[uint64]unread // the facts that cannot be read, or only in part, by sequence
}

// unread is a fact that this program does not know, as a whole or in part.
type unread struct {
	kind    string
	unknown string // what of it is not known
	writer  string // the version that recorded it, if it says so
}

// pipeline decodes chunks of messages side by side and applies them in order.
type pipeline struct {
	ctx   context.Context
	hears map[ledger.Noun]bool
	slots chan struct{}   // bounds how many chunks are being decoded
	order chan chan chunk // one result channel a chunk, in order
	done  chan struct{}   // closed when the applying goroutine ended
	err   error           // why it ended
}

// newPipeline starts a pipeline. It calls stop when apply fails, so that the feeder stops waiting for messages.
func newPipeline(ctx context.Context, stop func(), hears map[ledger.Noun]bool, apply func(chunk) error) *pipeline {
	width := max(2, runtime.GOMAXPROCS(0))
	p := &pipeline{
		ctx:   ctx,
		hears: hears,
		slots: make(chan struct{}, width),
		order: make(chan chan chunk, 2*width),
		done:  make(chan struct{}),
	}
	go func() {
		defer stop()
		defer close(p.done)
		p.err = p.run(apply)
	}()
	return p
}

// put takes a chunk of messages. It blocks while too many chunks are being decoded.
func (p *pipeline) put(msgs []bus.Message) error {
	result := make(chan chunk, 1)
	select {
	case p.slots <- struct{}{}:
	case <-p.done:
		return p.err
	case <-p.ctx.Done():
		return nil
	}
	if len(msgs) < 4 { // following live: not worth a goroutine
		result <- decode(msgs, p.hears)
		<-p.slots
	} else {
		go func() {
			result <- decode(msgs, p.hears)
			<-p.slots
		}()
	}
	select {
	case p.order <- result:
		return nil
	case <-p.done:
		return p.err
	case <-p.ctx.Done():
		return nil
	}
}

func (p *pipeline) run(apply func(chunk) error) error {
	for {
		select {
		case <-p.ctx.Done():
			return nil
		case result, more := <-p.order:
			if !more {
				return nil
			}
			select {
			case c := <-result:
				if err := apply(c); err != nil {
					return err
				}
			case <-p.ctx.Done():
				return nil
			}
		}
	}
}

// drain waits until everything that was put is applied, or the context is done. Nothing may be put after it.
func (p *pipeline) drain() error {
	close(p.order)
	<-p.done
	return p.err
}

// unreadable stands for a fact that this code does not know: it has no body.
func unreadable(m *bus.Message) ledger.Fact {
	noun, key, _ := ledger.KeyOf(m.Subject)
	return ledger.Fact{Noun: noun, Key: strings.Clone(key), Sequence: m.Sequence}
}

// decode reads the facts of a chunk that the view folds. An unreadable message keeps its position: a fact of a newer
// version must not stop an older service. A noun that this program does not know may be one that the view should fold.
func decode(msgs []bus.Message, hears map[ledger.Noun]bool) chunk {
	c := chunk{facts: make([]ledger.Fact, 0, len(msgs)), unread: map[uint64]unread{}}
	for i := range msgs {
		m := &msgs[i]
		c.last, c.stored = m.Sequence, m.Time
		if noun := ledger.NounOf(m.Subject); hears != nil && !hears[noun] && noun.Known() {
			continue
		}
		f, err := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence)
		if err != nil {
			c.unread[m.Sequence] = unreadOf(m, err)
			if f.Body == nil {
				f = unreadable(m)
			}
		}
		c.facts = append(c.facts, f)
	}
	return c
}

func unreadOf(m *bus.Message, err error) unread {
	u := unread{kind: strings.Clone(ledger.NameOf(m.Subject)), unknown: err.Error()}
	if newer := (*ledger.Newer)(nil); errors.As(err, &newer) {
		u.unknown, u.writer = newer.What, newer.Writer
	}
	return u
}
