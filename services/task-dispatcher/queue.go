package dispatcher

import (
	"context"
	"sync"
)

// queue is the servers whose document must be looked at: each is there once however
// often it was added, and is with one worker at a time. One that is added while a
// worker has it comes again when the worker is done, so the latest always wins. It is
// bounded by the number of servers.
type queue struct {
	mu      sync.Mutex
	waiting []string
	dirty   map[string]bool // waiting, or to wait again once it is not busy any more
	busy    map[string]bool // with a worker
	wake    chan struct{}
}

func newQueue() *queue {
	return &queue{dirty: map[string]bool{}, busy: map[string]bool{}, wake: make(chan struct{}, 1)}
}

// add asks for a look at a server's document. It never blocks.
func (q *queue) add(server string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dirty[server] {
		return
	}
	q.dirty[server] = true
	if !q.busy[server] {
		q.push(server)
	}
}

// push is called with the lock held.
func (q *queue) push(server string) {
	q.waiting = append(q.waiting, server)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for a server; false when ctx is done. The worker says done when it is.
func (q *queue) take(ctx context.Context) (string, bool) {
	for {
		if server, ok := q.pop(); ok {
			return server, true
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return "", false
		}
	}
}

func (q *queue) pop() (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return "", false
	}
	server := q.waiting[0]
	q.waiting = q.waiting[1:]
	delete(q.dirty, server)
	q.busy[server] = true
	if len(q.waiting) > 0 { // wake the next worker
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return server, true
}

// done gives a server back.
func (q *queue) done(server string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, server)
	if q.dirty[server] {
		q.push(server)
	}
}

// idle says whether every document was looked at.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0 && len(q.busy) == 0
}
