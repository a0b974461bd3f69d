package console

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
)

const (
	// settleFor is how long facts are gathered into one event.
	settleFor = 500 * time.Millisecond
	// beatEvery is how often a stream shows that it lives, and whether its session does.
	beatEvery = 5 * time.Second
)

// live sends an event named changed when something was recorded, at most two a second, until the session ends.
func (c *Console) live(v *visit) {
	from, err := v.client.LedgerEnd(v.Context())
	if err != nil {
		http.Error(v.w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	send := func(text string) bool {
		_, err := fmt.Fprint(v.w, text)
		return err == nil && http.NewResponseController(v.w).Flush() == nil
	}
	ctx, cancel := context.WithCancel(v.Context())
	defer cancel()
	recorded, ended := follow(ctx, v.client, from)
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for ok := send(": garrison\n\n"); ok; {
		select {
		case <-ended: // the user may no longer read the ledger, or the gateway stops
			return
		case <-beat.C:
			if _, ok = c.sessionOf(v.Request, false); !ok {
				send("event: end\ndata: the session is over\n\n")
				return
			}
			ok = send(": beat\n\n")
		case <-recorded:
			select {
			case <-time.After(settleFor):
			case <-ctx.Done():
				return
			}
			select {
			case <-recorded: // what came meanwhile is one change
			default:
			}
			ok = send("event: changed\ndata: {}\n\n")
		}
	}
}

// follow tells that facts were recorded, until it ends.
func follow(ctx context.Context, c *client.Client, from uint64) (recorded <-chan struct{}, ended <-chan struct{}) {
	facts, over := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(over)
		q := client.Query{After: client.Position{Sequence: from}, Gaps: true}
		for _, err := range c.Follow(ctx, q) {
			if err != nil {
				return
			}
			select {
			case facts <- struct{}{}:
			default: // one waits already
			}
		}
	}()
	return facts, over
}
