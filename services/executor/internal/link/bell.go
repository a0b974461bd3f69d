package link

import (
	"context"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
)

const (
	// bellsAtOnce is how many bells the bus delivers before the link listens anew.
	bellsAtOnce = 64
	// bellsASecond is the rate above which bells mean nothing: other servers can ring this one's bell.
	bellsASecond = 10
	// deafFor is how long bells are ignored then.
	deafFor = 10 * time.Second
	// readDeaf is how often the document is read meanwhile.
	readDeaf = time.Second / readsASecond
)

// listen wakes the reading of the document at each bell. The bus itself ends the subscription after
// bellsAtOnce bells, so that a flood of them costs this server no more than that: when they came too
// fast, the link ignores bells for a while and reads on a timer.
func (l *Link) listen(ctx context.Context) error {
	for {
		began := time.Now()
		full := make(chan struct{})
		heard := 0
		stop, err := l.cfg.Conn.SubscribeUpTo(topology.BellSubject(l.cfg.Address), bellsAtOnce, func(m bus.Message) {
			l.rung.note(m, topology.DesiredSubject(l.cfg.Address))
			l.bell.Wake()
			if heard++; heard == bellsAtOnce {
				close(full)
			}
		})
		if err != nil {
			return err
		}
		l.new.Store(true)
		l.bell.Wake() // for those that were missed
		select {
		case <-ctx.Done():
			stop()
			return ctx.Err()
		case <-full:
		}
		if time.Since(began) < bellsAtOnce/bellsASecond*time.Second {
			l.cfg.Log.Warn().Int("bells", bellsAtOnce).Dur("within", time.Since(began)).Dur("for", deafFor).
				Msg("bells are ignored: they ring too often; the document is read on a timer")
			l.deaf.Store(true)
			l.bell.Wake() // the timer changes
			_ = wakeup.Pause(ctx, deafFor)
			l.deaf.Store(false)
		}
	}
}

// rung is what bells announced since it was last taken. The zero value is ready.
type rung struct {
	mu       sync.Mutex
	newest   uint64      // the highest sequence of a document that was announced; 0 for none
	document bus.Message // the newest document that came with a bell; its sequence is 0 without one
}

// note notes a bell of the server whose documents have a subject.
func (r *rung) note(m bus.Message, subject string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = max(r.newest, m.Announced())
	if d, ok := m.Pushed(subject); ok && d.Sequence > r.document.Sequence {
		r.document = d
	}
}

// take returns what was announced, and forgets it.
func (r *rung) take() (newest uint64, document bus.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest, document = r.newest, r.document
	r.newest, r.document = 0, bus.Message{}
	return newest, document
}
