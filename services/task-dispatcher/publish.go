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
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/document"
)

const (
	// publishers is how many documents are written side by side.
	publishers = 64
	// publishTries is how often a write that met another one is tried before it waits.
	publishTries = 5
)

// places are where the documents are in the stream DESIRED, as far as this process
// knows: the guard of the next write.
type places struct {
	mu sync.Mutex
	at map[string]uint64
}

func (p *places) get(server string) (uint64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.at[server]
	return at, ok
}

func (p *places) set(server string, at uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[server] = at
}

func (p *places) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.at)
}

// publish keeps every server's document as the view says. At the start every server is
// in the queue, and what is there is compared before anything is written.
func (d *Dispatcher) publish(ctx context.Context) error {
	if !d.ready(ctx) {
		return nil
	}
	known := &places{at: map[string]uint64{}}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { d.lookAgain(ctx, known); return nil })
	for range publishers {
		g.Go(func() error {
			for {
				server, ok := d.dirty.take(ctx)
				if !ok {
					return nil
				}
				d.publishOne(ctx, known, server)
				d.dirty.done(server)
			}
		})
	}
	return g.Wait()
}

// lookAgain compares every document each time the bus is back: one that runs on a single
// server acknowledges documents before they are on its disk (topology.Streams), and the
// last ones are gone when it is killed. Whoever believed the acknowledgement would never
// write them again.
func (d *Dispatcher) lookAgain(ctx context.Context, known *places) {
	back := make(chan struct{}, 1)
	d.Conn.OnBack(func() {
		select {
		case back <- struct{}{}:
		default: // the look that is due is for this one too
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-back:
			known.forget()
			d.fold.Read(d.view.ReviewDocuments)
		}
	}
}

// publishOne writes one document. When it cannot, it asks for another look later. While
// the bus is away the worker waits with it; any other trouble is one server's own and
// keeps no worker from the others.
func (d *Dispatcher) publishOne(ctx context.Context, known *places, server string) {
	doc, data, err := d.project(server)
	if err == nil && doc != nil {
		err = d.write(ctx, known, doc, data)
	}
	switch {
	case err == nil || ctx.Err() != nil:
	case fault.Is(err, fault.Unavailable):
		d.Log.Debug().Err(err).Str(logs.Server, server).Msg("document not written")
		d.dirty.add(server)
		wait(ctx, nil, firstBackoff)
		_ = d.Conn.WaitConnected(ctx)
	default:
		d.Log.Error().Err(err).Str(logs.Server, server).Int("bytes", len(data)).Msg("document not written")
		time.AfterFunc(lastBackoff, func() { d.dirty.add(server) })
	}
}

// project makes a server's document and its bytes; nil when it has none.
func (d *Dispatcher) project(server string) (doc *desiredv1.Document, data []byte, err error) {
	d.fold.Read(func() {
		shared, ok := d.view.Document(server)
		if !ok {
			return
		}
		doc = &desiredv1.Document{
			ServerId: shared.ServerId, Cell: shared.Cell, Epoch: shared.Epoch, Generation: shared.Generation,
		}
		data, err = document.Encode(shared)
	})
	return doc, data, err
}

// write stores a document unless the same or a newer one is there. Of doc only server, cell, epoch and generation are
// set.
func (d *Dispatcher) write(ctx context.Context, known *places, doc *desiredv1.Document, data []byte) error {
	subject := topology.DesiredSubject(topology.ServerAddress{Cell: doc.Cell, Server: doc.ServerId})
	at, ok := known.get(doc.ServerId)
	for range publishTries {
		if !ok {
			stays, there, err := d.compare(ctx, subject, doc, data)
			if err != nil {
				return err
			}
			if there > 0 || !stays {
				known.set(doc.ServerId, there)
			}
			if stays {
				return nil
			}
			at = there
		}
		stored, err := d.Conn.PublishDurable(ctx, bus.Durable{Subject: subject, Data: data, Guard: &at})
		if err == nil {
			known.set(doc.ServerId, stored)
			return nil
		}
		if !fault.Is(err, fault.Conflict) {
			return err
		}
		ok = false // another dispatcher wrote: see what
	}
	return fault.New(fault.Conflict, "document of server %s: another dispatcher wrote it %d times meanwhile", doc.ServerId, publishTries)
}

// compare looks at the document that is there: whether it stays, and its place. One that stays because it is newer has
// no place: who writes next must look again, and not write over it.
func (d *Dispatcher) compare(ctx context.Context, subject string, doc *desiredv1.Document, data []byte) (stays bool, at uint64, err error) {
	m, err := d.Conn.DirectGet(ctx, topology.Desired, subject)
	if fault.Is(err, fault.NotFound) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, fmt.Errorf("compare document: %w", err)
	}
	if bytes.Equal(m.Data, data) {
		return true, m.Sequence, nil
	}
	var there desiredv1.Document
	if err := proto.Unmarshal(m.Data, &there); err != nil {
		return false, m.Sequence, nil // not a document: it is replaced
	}
	if document.Newer(&there, doc) && !d.ahead(doc.ServerId) {
		return true, 0, nil
	}
	return false, m.Sequence, nil
}

// ahead reports whether a server is ahead of the ledger. What is newer in the place of its document is then of the time
// that the ledger lost; another dispatcher that knows more writes again what it knows.
func (d *Dispatcher) ahead(server string) (is bool) {
	d.fold.Read(func() {
		s, _ := d.view.Server(server)
		is = s.GetAhead()
	})
	return is
}
