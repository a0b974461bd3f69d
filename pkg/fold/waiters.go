package fold

import (
	"container/heap"
	"context"
	"sync"
)

// waiters wait for positions of a view. Each is woken once, when the view holds what it waits for: hundreds wait at a
// time in a large run, and the view moves hundreds of times a second.
type waiters struct {
	mu      sync.Mutex
	reached uint64
	open    waiterHeap
}

// waiter waits for a position.
type waiter struct {
	position uint64
	woken    chan struct{}
	index    int // in the heap
}

// wait blocks until a position is reached or ctx is done, and reports whether it is reached.
func (w *waiters) wait(ctx context.Context, position uint64) bool {
	w.mu.Lock()
	if position <= w.reached {
		w.mu.Unlock()
		return true
	}
	one := &waiter{position: position, woken: make(chan struct{})}
	heap.Push(&w.open, one)
	w.mu.Unlock()
	select {
	case <-one.woken:
		return true
	case <-ctx.Done():
		return w.leave(one)
	}
}

// leave removes a waiter, and reports whether it was woken before.
func (w *waiters) leave(one *waiter) (woken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-one.woken:
		return true
	default:
		heap.Remove(&w.open, one.index)
		return false
	}
}

// reach wakes those that wait for a position up to this one.
func (w *waiters) reach(position uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reached = max(w.reached, position)
	for len(w.open) > 0 && w.open[0].position <= position {
		close(heap.Pop(&w.open).(*waiter).woken)
	}
}

// waiterHeap orders waiters by their position, the lowest first. It implements heap.Interface.
type waiterHeap []*waiter

func (h waiterHeap) Len() int           { return len(h) }
func (h waiterHeap) Less(a, b int) bool { return h[a].position < h[b].position }

func (h waiterHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].index, h[b].index = a, b
}

// Push adds a *waiter.
func (h *waiterHeap) Push(one any) {
	one.(*waiter).index = len(*h)
	*h = append(*h, one.(*waiter))
}

// Pop removes the last *waiter.
func (h *waiterHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}
