package supervise

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Handover returns the standard input for an agent that systemd starts, also while no executor runs. It is a socket
// whose queue holds one message with the agent's listening sockets. The shim peeks at the message and has systemd store
// the socket for later starts. The kernel keeps the sockets in a queued message open, and closes them with the last
// holder of the queue.
func Handover(names []string, files []*os.File) (*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("hand over sockets: %w", err)
	}
	input := os.NewFile(uintptr(pair[0]), "sockets")
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	err = unix.Sendmsg(pair[1], []byte(strings.Join(names, ":")), unix.UnixRights(fds...), nil, 0)
	if err := errors.Join(err, unix.Close(pair[1])); err != nil {
		return nil, errors.Join(fmt.Errorf("hand over sockets: %w", err), input.Close())
	}
	return input, nil
}

// The limits of one message: the kernel bounds descriptors (unix(7)), a manifest its sockets.
const (
	maxHandover = 64
	maxNames    = maxHandover * 64
)

// takeOver places the agent's sockets at file descriptor 3 and those after it, and returns their names.
func takeOver() ([]string, error) {
	from, err := handedOver()
	if err != nil {
		return nil, err
	}
	data, rights := make([]byte, maxNames), make([]byte, unix.CmsgSpace(4*maxHandover))
	n, size, flags, _, err := unix.Recvmsg(from, data, rights, unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) != 1 || flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 {
		return nil, fmt.Errorf("the message is incomplete: %w", err)
	}
	got, err := unix.ParseUnixRights(&messages[0])
	names := strings.Split(string(data[:n]), ":")
	if err != nil || len(got) != len(names) {
		return nil, fmt.Errorf("%d names for %d sockets: %w", len(names), len(got), err)
	}
	return names, errors.Join(unix.Close(from), place(got))
}

// firstDescriptor is where passed sockets begin (sd_listen_fds(3)).
const firstDescriptor = 3

// spare is above all passed sockets.
const spare = firstDescriptor + maxHandover

// handedOver returns the socket with the message: from systemd's store or, at the first start, from standard input.
// Then it has systemd store the socket.
func handedOver() (fd int, err error) {
	if os.Getenv("LISTEN_FDS") == "1" && os.Getenv("LISTEN_FDNAMES") == storeName {
		if fd, err = unix.FcntlInt(firstDescriptor, unix.F_DUPFD_CLOEXEC, spare); err != nil {
			return 0, err
		}
		return fd, unix.Close(firstDescriptor)
	}
	if fd, err = unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, spare); err != nil {
		return 0, err
	}
	return fd, errors.Join(store(fd), noInput())
}

// place moves descriptors to 3 and those after it, where they survive the exec of the agent. Usually they are there
// already: nothing else was opened before.
func place(got []int) error {
	for i, fd := range got {
		if fd >= firstDescriptor+len(got) || fd == firstDescriptor+i {
			continue
		}
		moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, spare) // its number belongs to another one
		if err != nil {
			return err
		}
		got[i] = moved
	}
	for i, fd := range got {
		if fd == firstDescriptor+i {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
				return err
			}
		} else if err := unix.Dup3(fd, firstDescriptor+i, 0); err != nil {
			return err
		}
	}
	return nil
}

// noInput replaces standard input by /dev/null: the agent does not need the message.
func noInput() error {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Dup3(null, 0, 0)
}
