package systemd

import (
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Keep has the service run from now on: systemd starts it again when it ends, and this
// when systemd has given up.
func (u *unit) Keep() { u.keeper.Keep(u.keep) }

// Leave stops keeping the service, and does not touch it.
func (u *unit) Leave() {
	u.keeper.Leave()
	if err := u.bus.release(u.name); err != nil {
		u.log.Warn().Err(err).Msg("service not released") // systemd does so when we end
	}
}

func (u *unit) keep(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-u.Exited():
		}
		wait := u.ended()
		u.changed()
		if !u.again(stop, wait) {
			return
		}
		u.changed()
	}
}

// ended counts an end, and gives how long to wait should systemd have given up.
func (u *unit) ended() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	how, started := u.status.LastEnd, time.Now() // one that could not be started ended at once
	if u.now != nil {
		how, started = u.now.how, u.now.startedAt
	}
	wait := u.policy.Ended(&u.status, how, started)
	u.log.Warn().Str("reason", how).Int("count", u.status.Restarts).Msg("agent ended")
	return wait
}

// How often systemd is asked whether it started an agent again: often at first, as it
// does so after a second, and ever more seldom while it does not get there or does not answer.
const (
	lookOften  = 50 * time.Millisecond
	lookSeldom = 5 * time.Second
	stuckAfter = time.Minute // from then on it is told that systemd does not get there
)

// patience is how a wait for systemd goes on.
type patience struct {
	last, all time.Duration
	said      bool
}

// next gives how long to wait before the next look, and says once that it has been too long.
func (p *patience) next() (wait time.Duration, stuck bool) {
	p.last = min(max(2*p.last, lookOften), lookSeldom)
	p.all += p.last
	stuck = p.all > stuckAfter && !p.said
	p.said = p.said || stuck
	return p.last, stuck
}

// again returns when the service runs again: started by systemd or, once systemd has
// given up and a wait is over, by us. It gives false when keeping was stopped meanwhile.
func (u *unit) again(stop <-chan struct{}, wait time.Duration) bool {
	var looks patience
	for {
		u.changing.Lock()
		adopted, err := u.adopt()
		u.changing.Unlock()
		if adopted {
			u.log.Info().Msg("agent restarted by systemd")
			return true
		}
		var s state
		if err == nil {
			s, err = u.bus.state(u.name)
		}
		if err != nil || !s.rests() {
			next, stuck := looks.next()
			if stuck {
				u.isStuck(s, err)
			}
			if !supervise.Pause(stop, next) {
				return false
			}
			continue
		}
		looks = patience{}
		if s.startLimited() {
			wait = u.gaveUp()
		}
		if !supervise.Pause(stop, wait) || !u.spec.Held(stop) {
			return false
		}
		if _, err = u.Start(); err == nil {
			u.log.Info().Msg("agent restarted")
			return true
		}
		u.log.Error().Err(err).Msg("agent not restarted")
		u.mu.Lock()
		u.status.LastEnd = err.Error()
		u.mu.Unlock()
		wait = u.ended()
	}
}

// isStuck tells that systemd neither runs the service nor is done with it, or does not answer.
func (u *unit) isStuck(s state, err error) {
	why := "systemd neither runs nor ends it: it is " + s.active + " (" + s.sub + ")"
	if err != nil {
		why = "systemd does not answer: " + err.Error()
	}
	u.log.Error().Str("reason", why).Msg("agent not restarted yet")
	u.mu.Lock()
	u.status.LastEnd = why
	u.mu.Unlock()
	u.changed()
}

// gaveUp remembers that systemd starts it no more, and gives how long it rests.
func (u *unit) gaveUp() time.Duration {
	u.mu.Lock()
	u.status.CrashLoop = true
	u.mu.Unlock()
	u.changed()
	return u.policy.Resting
}
