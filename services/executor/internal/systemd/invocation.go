package systemd

import (
	"cmp"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// invocation is one start of a service, by the executor or by systemd.
type invocation struct {
	bus       *bus
	service   string
	id        string
	pid       int
	startedAt time.Time
	ready     chan struct{} // closed after READY=1; nil when the agent does not send it
	exited    chan struct{} // closed when the process ended
	how       string        // how the process ended; valid after exited
	failing   supervise.Failing
	forget    sync.Once
	forgot    chan struct{} // closed when the end is no longer of interest; exited is closed then
}

// alive reports whether the process has not ended. A nil invocation has.
func (i *invocation) alive() bool {
	if i == nil {
		return false
	}
	select {
	case <-i.exited:
		return false
	default:
		return true
	}
}

// follow makes an invocation the unit's own and watches its process, which may have ended already.
func (u *unit) follow(s state) {
	i := &invocation{
		bus: u.of.bus, service: u.name,
		id: s.invocation, pid: cmp.Or(s.pid, s.lastPid), startedAt: s.startedAt, exited: make(chan struct{}),
		forgot: make(chan struct{}),
	}
	if awaitsReady(u.spec, u.once) {
		i.ready = make(chan struct{})
		go i.awaitReady()
	}
	u.mu.Lock()
	u.now = i
	u.mu.Unlock()
	go u.of.policy.BoundOutput(u.spec.Output, i.exited, u.log)
	go func() {
		defer close(i.exited)
		if i.await() {
			i.how = i.end()
		}
	}()
}

// Forget ends the watching of the process, which runs on.
func (u *unit) Forget() {
	if i := u.last(); i != nil {
		i.forget.Do(func() { close(i.forgot) })
	}
}

// await returns true when the process has ended, and false when it was forgotten before.
func (i *invocation) await() bool {
	fd, err := unix.PidfdOpen(i.pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return true
	}
	f := os.NewFile(uintptr(fd), "process")
	defer func() { _ = f.Close() }()
	if !i.runs() {
		return true // the process id may have been reused before it was opened
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-i.forgot:
			_ = f.SetReadDeadline(time.Now()) // without a pidfd the polling below ends
		case <-done:
		}
	}()
	if raw, err := f.SyscallConn(); err == nil && raw.Read(ended) == nil {
		return true
	}
	for i.runs() { // without a pidfd
		if !supervise.Pause(i.forgot, awaitEvery) {
			return false
		}
	}
	return true
}

const (
	awaitEvery    = time.Second     // how often systemd is polled without a pidfd
	endSeenWithin = 5 * time.Second // for systemd to notice an end that the kernel has shown
)

// runs reports whether systemd says that the invocation runs. Without an answer it returns true.
func (i *invocation) runs() bool {
	s, err := i.bus.state(i.service)
	return err != nil || s.invocation == i.id && s.pid == i.pid
}

// ended reports whether the process of a pidfd has ended.
func ended(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
}

// end returns how the invocation ended.
func (i *invocation) end() (how string) {
	how = "ended"
	_ = eventually(endSeenWithin, func() (bool, error) {
		s, err := i.bus.state(i.service)
		switch {
		case err != nil:
			return false, nil // the bus may come back
		case s.invocation != i.id || s.gone():
			how = "ended, and systemd started it again"
			return true, nil
		case s.pid == i.pid:
			return false, nil
		}
		how = s.how()
		return true, nil
	})
	return how
}

// awaitReady closes ready when systemd has received READY=1 from the invocation.
func (i *invocation) awaitReady() {
	for wait := 5 * time.Millisecond; i.alive(); wait = min(2*wait, time.Second) {
		s, err := i.bus.state(i.service)
		if err == nil && s.invocation != i.id {
			return
		}
		if err == nil && s.active == "active" {
			close(i.ready)
			return
		}
		select {
		case <-i.exited:
		case <-time.After(wait):
		}
	}
}
