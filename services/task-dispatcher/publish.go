package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/document"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

const (
	// publishers is how many documents are written side by side.
	publishers = 64
	// publishTries is how often a write that conflicts with another one is tried at once.
	publishTries = 5
)

// publisher keeps every server's document in the stream DESIRED equal to the view.
type publisher struct {
	cfg       Config
	view      *view.View
	follower  *fold.Follower
	changed   *queue // servers whose document may have changed
	positions *positions
	foreign   *foreign
}

func newPublisher(cfg Config, v *view.View, follower *fold.Follower, changed *queue) *publisher {
	return &publisher{
		cfg: cfg, view: v, follower: follower, changed: changed,
		positions: &positions{at: map[string]uint64{}},
		foreign:   &foreign{said: map[string]time.Time{}, now: cfg.Now, log: cfg.Log},
	}
}

// run writes documents until ctx is done. At the start every server is in the queue, and its stored
// document is compared before anything is written.
func (p *publisher) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { p.compareAfterReconnects(ctx); return nil })
	for range publishers {
		g.Go(func() error {
			for {
				server, ok := p.changed.take(ctx)
				if !ok {
					return nil
				}
				p.publish(ctx, server)
				p.changed.done(server)
			}
		})
	}
	return g.Wait()
}

// compareAfterReconnects compares every document after each reconnect. A bus with a single server
// acknowledges documents before they are on its disk (topology.Streams), and loses the last ones
// when it is killed. A dispatcher that relied on the acknowledgement would never write them again.
func (p *publisher) compareAfterReconnects(ctx context.Context) {
	back := wakeup.New()
	p.cfg.Conn.OnBack(back.Wake)
	for {
		select {
		case <-ctx.Done():
			return
		case <-back.C():
			p.positions.forget()
			p.follower.Read(p.view.ReviewDocuments)
		}
	}
}

// publish writes one document. On failure it queues the server again. While the bus is unreachable
// the worker waits; any other error concerns one server only and holds up no other.
func (p *publisher) publish(ctx context.Context, server string) {
	doc, data, err := p.project(server)
	if err == nil && doc != nil {
		err = p.write(ctx, doc, data)
	}
	switch {
	case err == nil || ctx.Err() != nil:
	case fault.Is(err, fault.Unavailable):
		p.cfg.Log.Debug().Err(err).Str(logs.Server, server).Msg("document not written")
		p.changed.add(server)
		wait(ctx, nil, firstBackoff)
		_ = p.cfg.Conn.WaitConnected(ctx)
	default:
		p.cfg.Log.Error().Err(err).Str(logs.Server, server).Int("bytes", len(data)).Msg("document not written")
		time.AfterFunc(lastBackoff, func() { p.changed.add(server) })
	}
}

// project returns a server's document and its bytes; nil when it has none. Of the document only
// server, cell, epoch and generation are set.
func (p *publisher) project(server string) (doc *desiredv1.Document, data []byte, err error) {
	p.follower.Read(func() {
		shared, ok := p.view.Rows.Document(server)
		if !ok {
			return
		}
		doc = &desiredv1.Document{
			ServerId: shared.ServerId, Cell: shared.Cell, Epoch: shared.Epoch, Generation: shared.Generation,
		}
		revealed, failed := document.Reveal(shared, p.cfg.Secrets)
		if failed != nil {
			p.cfg.Log.Error().Err(failed).Str(logs.Server, server).Msg("document without a secret")
		}
		data, err = document.Encode(revealed)
	})
	return doc, data, err
}

// write stores a document unless the same one is stored, or a newer one of another dispatcher.
func (p *publisher) write(ctx context.Context, doc *desiredv1.Document, data []byte) error {
	subject := topology.DesiredSubject(topology.ServerAddress{Cell: doc.Cell, Server: doc.ServerId})
	at, ok := p.positions.get(doc.ServerId)
	for range publishTries {
		if !ok {
			keep, stored, err := p.compare(ctx, subject, doc, data)
			if err != nil {
				return err
			}
			if stored > 0 || !keep {
				p.positions.set(doc.ServerId, stored)
			}
			if keep {
				return nil
			}
			at = stored
		}
		stored, err := p.cfg.Conn.PublishDurable(ctx, bus.Durable{Subject: subject, Data: data, Guard: &at})
		if err == nil {
			p.positions.set(doc.ServerId, stored)
			return nil
		}
		if !fault.Is(err, fault.Conflict) {
			return err
		}
		ok = false // another dispatcher wrote: compare with its document
	}
	return fault.New(fault.Conflict, "document of server %s: another dispatcher wrote it %d times meanwhile",
		doc.ServerId, publishTries)
}

// compare reads the stored document and returns whether to keep it, and its position. A newer one
// of another dispatcher is kept and has position 0: the next write must compare again, and not write
// over it.
func (p *publisher) compare(
	ctx context.Context,
	subject string,
	doc *desiredv1.Document,
	data []byte,
) (keep bool, at uint64, err error) {
	m, err := p.cfg.Conn.DirectGet(ctx, topology.Desired, subject)
	if fault.Is(err, fault.NotFound) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, fmt.Errorf("compare document: %w", err)
	}
	if bytes.Equal(m.Data, data) {
		return true, m.Sequence, nil
	}
	var stored desiredv1.Document
	if err := proto.Unmarshal(m.Data, &stored); err != nil {
		return false, m.Sequence, nil // not a document: it is replaced
	}
	if !document.Newer(&stored, doc) {
		return false, m.Sequence, nil
	}
	if made, err := p.ledgerMakes(ctx, &stored); err != nil || made {
		return made, 0, err
	}
	p.foreign.note(&stored, doc)
	p.lookAgain(doc.ServerId)
	return false, m.Sequence, nil
}

// positions are the sequences of the documents in the stream DESIRED, as far as this process knows
// them: the guards of the next writes.
type positions struct {
	mu sync.Mutex
	at map[string]uint64
}

func (p *positions) get(server string) (uint64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.at[server]
	return at, ok
}

func (p *positions) set(server string, at uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[server] = at
}

func (p *positions) drop(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.at, server)
}

func (p *positions) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.at)
}
