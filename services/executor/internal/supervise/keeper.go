package supervise

import (
	"sync"
	"time"
)

// Keeper runs at most one restart loop at a time. The zero value is ready.
type Keeper struct {
	mu         sync.Mutex
	stop, done chan struct{} // stop is nil while no loop runs
}

// Keep starts the loop unless it runs. The loop must end when stop is closed.
func (k *Keeper) Keep(loop func(stop <-chan struct{})) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stop != nil {
		return
	}
	stop, done := make(chan struct{}), make(chan struct{})
	k.stop, k.done = stop, done
	go func() {
		defer close(done)
		loop(stop)
	}()
}

// Leave ends the loop, and returns when it has ended.
func (k *Keeper) Leave() {
	k.mu.Lock()
	stop, done := k.stop, k.done
	k.stop = nil
	k.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
}

// Pause waits, and returns false when stop is closed before.
func Pause(stop <-chan struct{}, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-stop:
		return false
	case <-timer.C:
		return true
	}
}
