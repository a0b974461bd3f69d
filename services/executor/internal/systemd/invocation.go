package systemd

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// invocation is one start of a service, by us or by systemd.
type invocation struct {
	id        string
	pid       int
	startedAt time.Time
	ready     chan struct{} // closed when it said READY=1; nil when it need not
	exited    chan struct{} // closed when its process ended
	how       string        // how it ended; read it after exited
}

func (i *invocation) alive() bool {
	select {
	case <-i.exited:
		return false
	default:
		return true
	}
}

// follow makes an invocation the unit's own, and watches its process. One that ended
// before we looked is followed too: then it has ended.
func (u *unit) follow(s state) {
	i := &invocation{id: s.invocation, pid: s.lastPid, startedAt: s.startedAt, exited: make(chan struct{})}
	if s.pid != 0 {
		i.pid = s.pid
	}
	if u.spec.Notify && !u.once {
		i.ready = make(chan struct{})
		go u.awaitReady(i)
	}
	u.mu.Lock()
	u.now = i
	u.mu.Unlock()
	go u.policy.BoundOutput(u.spec.Output, i.exited, u.log)
	go func() {
		u.await(i)
		i.how = u.endOf(i)
		close(i.exited)
	}()
}

// await returns when the process has ended.
func (u *unit) await(i *invocation) {
	fd, err := unix.PidfdOpen(i.pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	f := os.NewFile(uintptr(fd), "process")
	defer func() { _ = f.Close() }()
	if !u.runsAs(i) {
		return // the process id may have been another's when it was opened
	}
	if raw, err := f.SyscallConn(); err == nil && raw.Read(ended) == nil {
		return
	}
	for u.runsAs(i) { // the kernel does not tell of it
		time.Sleep(awaitEvery)
	}
}

// awaitEvery is how often systemd is asked when the kernel does not tell.
const awaitEvery = time.Second

// runsAs says whether systemd knows an invocation as the one that runs. Without an answer it is believed to.
func (u *unit) runsAs(i *invocation) bool {
	s, err := u.bus.state(u.name)
	return err != nil || s.invocation == i.id && s.pid == i.pid
}

// ended says whether the process of a descriptor has ended.
func ended(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
}

// endSeenWithin is how long systemd may take to see what the kernel told us.
const endSeenWithin = 5 * time.Second

// endOf finds out how an invocation ended.
func (u *unit) endOf(i *invocation) (how string) {
	how = "ended"
	_ = eventually(endSeenWithin, func() (bool, error) {
		s, err := u.bus.state(u.name)
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

// awaitReady closes ready when systemd heard READY=1 from the invocation.
func (u *unit) awaitReady(i *invocation) {
	for wait := 5 * time.Millisecond; i.alive(); wait = min(2*wait, time.Second) {
		s, err := u.bus.state(u.name)
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
