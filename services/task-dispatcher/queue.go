package dispatcher

import (
	"context"
	"sync"

	"github.com/garrison-fleet/garrison/pkg/wakeup"
)

// queue holds the servers whose document may have changed. Each is in it once however often it was
// added, and is with one worker at a time. A server that is added while a worker has it is handed
// out again afterwards, so the latest document always wins. The number of servers bounds it.
type queue struct {
	mu      sync.Mutex
	waiting []string
	dirty   map[string]bool // waiting, or to wait again once no worker has it
	busy    map[string]bool // with a worker
	added   wakeup.Signal
}

func newQueue() *queue {
	return &queue{dirty: map[string]bool{}, busy: map[string]bool{}, added: wakeup.New()}
}

// add adds a server. It never blocks.
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

// push must be called with the lock held.
func (q *queue) push(server string) {
	q.waiting = append(q.waiting, server)
	q.added.Wake()
}

// take waits for a server; false when ctx is done. The worker must call done afterwards.
func (q *queue) take(ctx context.Context) (string, bool) {
	for {
		if server, ok := q.pop(); ok {
			return server, true
		}
		select {
		case <-q.added.C():
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
	if len(q.waiting) > 0 {
		q.added.Wake() // for the next worker
	}
	return server, true
}

// done returns a server that a worker took.
func (q *queue) done(server string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, server)
	if q.dirty[server] {
		q.push(server)
	}
}

// idle reports whether no server waits or is with a worker.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0 && len(q.busy) == 0
}

// length returns how many servers wait or are with a worker.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) + len(q.busy)
}
