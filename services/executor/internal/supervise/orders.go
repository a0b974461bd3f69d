package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Orders are what the shim applies to itself before it becomes the agent.
type Orders struct {
	Inherit         bool     `json:"inherit,omitempty"`           // the sockets are in place and in the environment
	Take            bool     `json:"take,omitempty"`              // the sockets are in the message of Handover
	Quiet           bool     `json:"quiet,omitempty"`             // the agent gets no NOTIFY_SOCKET
	OpenFiles       uint64   `json:"open_files,omitempty"`        // as limits.open_files
	NoNewPrivileges bool     `json:"no_new_privileges,omitempty"` // as sandbox.no_new_privileges
	User            *account `json:"user,omitempty"`              // the user to become
}

// Arguments returns the arguments with which the executor's program becomes an agent.
func (o Orders) Arguments(program string, args []string) ([]string, error) {
	said, err := json.Marshal(o)
	return append([]string{shimCommand, string(said), program}, args...), err
}

// follow carries the orders out, and returns additions to the environment. It drops privileges last.
func (o Orders) follow() (env []string, err error) {
	if o.Take {
		names, err := takeOver()
		if err != nil {
			return nil, fmt.Errorf("take the sockets: %w", err)
		}
		env = append(env, "LISTEN_FDS="+strconv.Itoa(len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	}
	if o.Take || o.Inherit {
		env = append(env, "LISTEN_PID="+strconv.Itoa(os.Getpid()))
		beTraceable()
	}
	if n := o.OpenFiles; n > 0 {
		// Of package syscall: with package unix the Go runtime would restore the old limit at the exec.
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			return nil, fmt.Errorf("bound open files at %d: %w", n, err)
		}
	}
	if u := o.User; u != nil && u.UID != os.Geteuid() {
		if err := u.become(); err != nil {
			return nil, fmt.Errorf("become user %d: %w", u.UID, err)
		}
	}
	if o.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("set no_new_privileges: %w", err)
		}
	}
	return env, nil
}

// become makes this process the user's. The kernel clears PR_SET_PDEATHSIG with the privileges, so it is set again.
func (a account) become() error {
	parent, signal := os.Getppid(), int32(0) // as wide as the kernel writes it
	err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0)
	if err := errors.Join(err, syscall.Setgroups(a.Groups), syscall.Setgid(a.GID), syscall.Setuid(a.UID)); err != nil ||
		signal == 0 {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(signal), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != parent { // the parent ended meanwhile
		return errors.New("its parent has ended")
	}
	return nil
}

// ordersOf returns the orders for a process that the executor starts itself.
func ordersOf(s Spec) (Orders, error) {
	o := Orders{
		Inherit:         s.Sockets != nil,
		OpenFiles:       s.Limits.GetOpenFiles(),
		NoNewPrivileges: s.Sandbox.GetNoNewPrivileges(),
	}
	if name := s.Sandbox.GetUser(); name != "" {
		a, err := lookUp(name)
		if err != nil {
			return o, err
		}
		o.User = &a
	}
	return o, nil
}
