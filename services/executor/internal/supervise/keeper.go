package supervise

import (
	"sync"
	"time"
)

// Keeper runs a loop that keeps something running, at most one at a time. The zero value is ready.
type Keeper struct {
	mu         sync.Mutex
	stop, done chan struct{} // stop is nil while no loop runs
}

// Keep begins the loop unless it runs. The loop ends when its channel is closed.
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

// Pause waits, and gives false when stop is closed before.
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

// Ended counts an end of what ran since started into a status, and gives how long to wait
// before the next start.
func (p Policy) Ended(s *Status, how string, started time.Time) time.Duration {
	s.LastEnd = how
	if time.Since(started) >= p.Steady {
		s.Restarts = 0
	}
	s.Restarts++
	s.CrashLoop = s.Restarts >= p.CrashLoop
	return p.Wait(s.Restarts)
}
