package catalog

import (
	"context"
	"sync"
	"time"
)

// limits bounds turns.
type limits struct {
	servers int // that wait or were served within the last burst
	window  int // requests of one server that wait
	pace    int // bytes a second to one server
	burst   int // bytes to one server without a pause
}

// turns lets many servers wait for an answer and serves them one after another, so that a server that requests without
// end delays no other. It is safe for concurrent use.
//
//  1. Of each server at most limits.window requests wait, and of at most limits.servers servers. add refuses more.
//  2. While several servers wait, none is served twice before each was served once.
//  3. A server receives at most limits.burst bytes at once, and then limits.pace bytes a second. It waits meanwhile and
//     holds up no other.
type turns[R any] struct {
	limits limits
	next   chan *line[R] // the servers whose turn comes, each once

	mu    sync.Mutex
	lines map[string]*line[R]
	swept time.Time
}

// line is the requests of one server.
type line[R any] struct {
	waiting []R
	queued  bool      // in next, or will be once the pause ends
	paid    time.Time // when the bytes that it received are paid for at its pace
}

func newTurns[R any](l limits) *turns[R] {
	return &turns[R]{limits: l, next: make(chan *line[R], l.servers), lines: map[string]*line[R]{}}
}

// add adds a request of a server, and reports whether there was room.
func (q *turns[R]) add(server string, r R) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[server]
	if l == nil {
		if q.sweep(); len(q.lines) >= q.limits.servers {
			return false
		}
		l = &line[R]{}
		q.lines[server] = l
	}
	if len(l.waiting) >= q.limits.window {
		return false
	}
	l.waiting = append(l.waiting, r)
	q.enqueue(l)
	return true
}

// enqueue puts a line behind all others, once it may be served again.
func (q *turns[R]) enqueue(l *line[R]) {
	if l.queued || len(l.waiting) == 0 {
		return
	}
	l.queued = true
	if pause := time.Until(l.paid); pause > 0 {
		time.AfterFunc(pause, func() { q.next <- l })
		return
	}
	q.next <- l // never full: it has room for every line
}

// turn is one request to be served.
type turn[R any] struct {
	request R
	queue   *turns[R]
	line    *line[R]
}

// take waits for a request. It returns false when ctx is done.
func (q *turns[R]) take(ctx context.Context) (turn[R], bool) {
	select {
	case l := <-q.next:
		q.mu.Lock()
		defer q.mu.Unlock()
		t := turn[R]{l.waiting[0], q, l}
		l.waiting = l.waiting[1:]
		l.queued = false
		q.enqueue(l)
		return t, true
	case <-ctx.Done():
		return turn[R]{}, false
	}
}

// answered charges the server for the bytes of the answer. It must be called before the answer is sent.
func (t turn[R]) answered(bytes int) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if free := time.Now().Add(-t.queue.took(t.queue.limits.burst)); t.line.paid.Before(free) {
		t.line.paid = free
	}
	t.line.paid = t.line.paid.Add(t.queue.took(bytes))
}

// took returns how long bytes take at the pace of one server.
func (q *turns[R]) took(bytes int) time.Duration {
	return time.Duration(float64(bytes) / float64(q.limits.pace) * float64(time.Second))
}

// sweep forgets the servers that do not wait and may receive a whole burst again. The caller holds the lock.
func (q *turns[R]) sweep() {
	free := time.Now().Add(-q.took(q.limits.burst))
	if len(q.lines) < q.limits.servers && q.swept.After(free) {
		return
	}
	q.swept = time.Now()
	for server, l := range q.lines {
		if !l.queued && len(l.waiting) == 0 && !l.paid.After(free) {
			delete(q.lines, server)
		}
	}
}

// rest takes every request that waits. Nothing may be added meanwhile.
func (q *turns[R]) rest() (all []R) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lines {
		all = append(all, l.waiting...)
		l.waiting = nil
	}
	return all
}

// count returns how many requests wait.
func (q *turns[R]) count() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lines {
		n += len(l.waiting)
	}
	return n
}
