package systemd

import (
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Keep keeps the service running: systemd restarts the process, and the executor does when systemd has given up.
func (u *unit) Keep() { u.keeper.Keep(u.keep) }

// Leave stops keeping the service, and does not end it.
func (u *unit) Leave() {
	u.keeper.Leave()
	if err := u.of.bus.release(u.name); err != nil {
		u.log.Warn().Err(err).Msg("service not released") // the end of the connection releases it
	}
}

func (u *unit) keep(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-u.Exited():
		}
		cause := u.spec.CauseNow()
		wait := u.ended(nil, cause)
		u.changed()
		if !u.again(stop, wait, cause) {
			return
		}
		u.changed()
	}
}

// ended counts an end, or a start that failed, and returns the wait before the executor's own start should systemd have
// given up.
func (u *unit) ended(notStarted error, c supervise.Cause) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := time.Now()
	e := supervise.End{How: u.status.LastEnd, Started: at}
	switch {
	case notStarted != nil:
		e.How = notStarted.Error()
	case u.now != nil:
		e = u.now.failing.End(u.now.how, u.now.startedAt)
	}
	e.How, u.counted = c.Because(e.How), u.now
	wait := u.of.policy.Ended(&u.status, e, at)
	u.log.Warn().Str("reason", e.How).Int("count", u.status.Restarts).Msg("agent ended")
	return wait
}

// The polling of systemd for a restarted agent: often at first, as systemd restarts it after a second, and less and
// less often while it does not or does not answer.
const (
	pollOften  = 50 * time.Millisecond
	pollSeldom = 5 * time.Second
	stuckAfter = time.Minute // then the agent is reported as stuck
)

// polling computes the waits between polls. The zero value begins.
type polling struct {
	last, all time.Duration
	reported  bool
}

// next returns the wait before the next poll; stuck is true once, when the waits exceed stuckAfter.
func (p *polling) next() (wait time.Duration, stuck bool) {
	p.last = min(max(2*p.last, pollOften), pollSeldom)
	p.all += p.last
	stuck = p.all > stuckAfter && !p.reported
	p.reported = p.reported || stuck
	return p.last, stuck
}

// again returns true when the service runs again: restarted by systemd or, when systemd has given up and the wait is
// over, by the executor. It returns false when keeping was stopped before.
func (u *unit) again(stop <-chan struct{}, wait time.Duration, cause supervise.Cause) bool {
	for {
		adopted, limited, ok := u.awaitRest(stop)
		if adopted || !ok {
			return ok
		}
		if u.Drift() != "" {
			if !u.awaitEnabled(stop) {
				return false
			}
			continue
		}
		if limited {
			u.gaveUp(wait)
		}
		if !u.of.policy.Pause(stop, wait, cause, u.log) || !u.spec.Held(stop) {
			return false
		}
		_, err := u.Start()
		if err == nil {
			u.log.Info().Msg("agent restarted")
			return true
		}
		u.log.Error().Err(err).Msg("agent not restarted")
		cause = u.spec.CauseNow()
		wait = u.ended(err, cause)
		u.changed()
	}
}

// awaitRest polls until the service runs again, which it then adopts, or systemd does nothing more with it. limited
// reports whether systemd has given up, ok whether keeping was not stopped.
func (u *unit) awaitRest(stop <-chan struct{}) (adopted, limited, ok bool) {
	var polls polling
	for {
		u.changing.Lock()
		adopted, err := u.adopt()
		u.changing.Unlock()
		if adopted {
			u.log.Info().Msg("agent restarted by systemd")
			return true, false, true
		}
		var s state
		if err == nil {
			s, err = u.of.bus.state(u.name)
		}
		if err == nil && s.rests() {
			return false, s.startLimited(), true
		}
		wait, stuck := polls.next()
		if stuck {
			u.reportStuck(s, err)
		}
		if !supervise.Pause(stop, wait) {
			return false, false, false
		}
	}
}

// awaitEnabled waits while an adopted service is disabled on the server and does not run: an operator of the server
// wants it so. It returns false when keeping was stopped before.
func (u *unit) awaitEnabled(stop <-chan struct{}) bool {
	for seen := ""; ; {
		why := u.Drift()
		s, err := u.of.bus.state(u.name)
		if why == "" || err == nil && s.runs() {
			u.setDisabled("")
			return true
		}
		if why != seen {
			u.log.Warn().Str("reason", why).Msg("adopted service left stopped")
			u.setDisabled(why)
			seen = why
		}
		if !supervise.Pause(stop, pollSeldom) {
			return false
		}
	}
}

// setDisabled notes why the service is not started; "" means that it is.
func (u *unit) setDisabled(why string) {
	u.mu.Lock()
	if u.status.Disabled = why != ""; u.status.Disabled {
		u.status.LastEnd = why
	}
	u.mu.Unlock()
	u.changed()
}

// reportStuck reports that systemd neither runs nor ends the service, or does not answer.
func (u *unit) reportStuck(s state, err error) {
	why := "systemd neither runs nor ends it: it is " + s.active + " (" + s.sub + ")"
	if err != nil {
		why = "systemd does not answer: " + err.Error()
	}
	u.log.Error().Str("reason", why).Msg("agent not restarted yet")
	u.setLastEnd(why)
	u.changed()
}

func (u *unit) setLastEnd(how string) {
	u.mu.Lock()
	u.status.LastEnd = how
	u.mu.Unlock()
}

// gaveUp marks the crash loop after systemd gave up, and when the executor starts the service.
func (u *unit) gaveUp(wait time.Duration) {
	u.mu.Lock()
	u.status.CrashLoop, u.status.NextStart = true, time.Now().Add(wait)
	u.mu.Unlock()
	u.changed()
}
