package link

import (
	"context"
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
			l.announce(m.Announced())
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

// announce notes the sequence of a document that a bell announced: 0 for none. The next reading takes it.
func (l *Link) announce(sequence uint64) {
	for {
		known := l.rung.Load()
		if sequence <= known || l.rung.CompareAndSwap(known, sequence) {
			return
		}
	}
}
