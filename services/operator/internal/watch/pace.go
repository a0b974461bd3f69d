package watch

import "time"

// pace is when changes ended, for an estimate of the time left.
type pace struct {
	done  int
	at    time.Time     // when the last one ended
	after time.Duration // the time left then
}

// left returns the time left at the rate of what ended since began. While nothing ends it shrinks. It is zero, which
// means unknown, once it is used up: what takes longer than the others says nothing about when it ends.
func (p *pace) left(began, now time.Time, done, all int) time.Duration {
	took := now.Sub(began)
	if done == 0 || done >= all || took < 2*time.Second {
		return 0
	}
	if done != p.done {
		*p = pace{done, now, took * time.Duration(all-done) / time.Duration(done)}
	}
	return max(0, p.after-now.Sub(p.at))
}
