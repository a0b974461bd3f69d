package supervise

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// storeName names the socket that systemd stores for an agent's next start.
const storeName = "garrison"

// storedWithin bounds the wait for systemd to store it.
const storedWithin = 10 * time.Second

// store has systemd keep a descriptor for the service's next start (sd_pid_notify_with_fds(3)), and returns when it
// does. systemd must not poll it: its other end is closed. Package net, and so go-systemd's daemon package, would open
// descriptors where the agent's belong; this uses bare system calls.
func store(fd int) error {
	to, err := notifier(os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return fmt.Errorf("reach systemd: %w", err)
	}
	defer func() { _ = unix.Close(to) }()
	var done [2]int
	if err := unix.Pipe2(done[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer func() { _ = unix.Close(done[0]) }()
	// systemd closes its end of the pipe when it has processed all earlier messages.
	err = errors.Join(
		unix.Sendmsg(to, []byte("FDSTORE=1\nFDPOLL=0\nFDNAME="+storeName), unix.UnixRights(fd), nil, 0),
		unix.Sendmsg(to, []byte("BARRIER=1"), unix.UnixRights(done[1]), nil, 0),
		unix.Close(done[1]))
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	for end := time.Now().Add(storedWithin); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(done[0])}}, int(time.Until(end).Milliseconds()))
		switch {
		case n > 0:
			return nil // systemd closed its end
		case time.Now().After(end):
			return fmt.Errorf("systemd did not store the sockets within %s", storedWithin)
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		}
	}
}

// notifier connects to the notification socket.
func notifier(path string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	return fd, unix.Connect(fd, &unix.SockaddrUnix{Name: path}) // a leading @ means an abstract name
}
