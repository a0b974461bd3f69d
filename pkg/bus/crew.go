package bus

import (
	"sync"
	"sync/atomic"
)

// idleWorkers is how many workers without work a crew keeps. A new worker first grows its stack to what a handler
// needs, which costs more than most handlers.
const idleWorkers = 64

// crew does work in goroutines, as many at once as it has places.
type crew[M any] struct {
	do      func(M)
	places  chan struct{} // one of each worker
	idle    chan M        // what a worker without work takes
	resting atomic.Int32  // workers without work
	workers sync.WaitGroup
}

func newCrew[M any](places int, do func(M)) *crew[M] {
	return &crew[M]{do: do, places: make(chan struct{}, places), idle: make(chan M)}
}

// give hands work to a worker, and blocks while all places are taken. It is called by one goroutine.
func (c *crew[M]) give(m M) {
	select {
	case c.idle <- m:
		return
	default:
	}
	select {
	case c.idle <- m:
	case c.places <- struct{}{}:
		c.workers.Go(func() { c.work(m) })
	}
}

// work does one thing after another until there are enough workers without work, or wait is called.
func (c *crew[M]) work(m M) {
	defer func() { <-c.places }()
	for ok := true; ok; {
		c.do(m)
		if c.resting.Add(1) > idleWorkers {
			c.resting.Add(-1)
			return
		}
		m, ok = <-c.idle
		c.resting.Add(-1)
	}
}

// wait ends the workers once they have done what was given, and returns then. Nothing is given after that.
func (c *crew[M]) wait() {
	close(c.idle)
	c.workers.Wait()
}
