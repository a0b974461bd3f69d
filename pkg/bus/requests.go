package bus

import (
	"context"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// requests are those that are admitted and wait for a slot: requestsWaiting at most, and with their headers
// requestBytesWaiting.
type requests struct {
	queue chan *nats.Msg
	bytes atomic.Int64
}

func newRequests() *requests { return &requests{queue: make(chan *nats.Msg, requestsWaiting)} }

// put reports whether there was room for a request. It never blocks.
func (r *requests) put(m *nats.Msg) bool {
	if size := int64(m.Size()); r.bytes.Add(size) <= requestBytesWaiting {
		select {
		case r.queue <- m:
			return true
		default:
		}
	}
	r.bytes.Add(-int64(m.Size()))
	return false
}

// each handles requests, callsAtOnce at a time, until ctx is done. What waits then is dropped.
func (r *requests) each(ctx context.Context, handle func(*nats.Msg)) {
	slots := make(chan struct{}, callsAtOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		select {
		case <-ctx.Done():
			return
		case m := <-r.queue:
			r.bytes.Add(-int64(m.Size()))
			go func() {
				defer func() { <-slots }()
				handle(m)
			}()
		}
	}
}
