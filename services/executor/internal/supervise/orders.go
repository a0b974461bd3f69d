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

// Orders are what the shim does before it becomes the agent.
type Orders struct {
	Inherit         bool     `json:"inherit,omitempty"`           // its sockets are there, and named in the environment
	Take            bool     `json:"take,omitempty"`              // its sockets wait for it, as Handover left them
	Quiet           bool     `json:"quiet,omitempty"`             // it says no READY=1, and gets no NOTIFY_SOCKET
	OpenFiles       uint64   `json:"open_files,omitempty"`        // as limits.open_files
	NoNewPrivileges bool     `json:"no_new_privileges,omitempty"` // as sandbox.no_new_privileges
	User            *account `json:"user,omitempty"`              // whom it becomes
}

// Arguments gives the arguments with which our own program becomes an agent.
func (o Orders) Arguments(program string, args []string) ([]string, error) {
	said, err := json.Marshal(o)
	return append([]string{shimCommand, string(said), program}, args...), err
}

// follow does what was ordered, and gives what the environment has besides. Rights are
// given up last.
func (o Orders) follow() (env []string, err error) {
	if o.Take {
		names, err := takeOver()
		if err != nil {
			return nil, fmt.Errorf("take its sockets: %w", err)
		}
		env = append(env, "LISTEN_FDS="+strconv.Itoa(len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	}
	if o.Take || o.Inherit {
		env = append(env, "LISTEN_PID="+strconv.Itoa(os.Getpid()))
		beTraceable()
	}
	if n := o.OpenFiles; n > 0 {
		// Of package syscall: only then is it not undone when the program is executed.
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
			return nil, fmt.Errorf("give up new privileges: %w", err)
		}
	}
	return env, nil
}

// become makes this process the user's. With its rights the kernel forgets with whom the
// process is to die (PR_SET_PDEATHSIG), and is told again.
func (a account) become() error {
	parent, signal := os.Getppid(), int32(0) // as wide as the kernel writes it
	err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0)
	if err := errors.Join(err, syscall.Setgroups(a.Groups), syscall.Setgid(a.GID), syscall.Setuid(a.UID)); err != nil || signal == 0 {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(signal), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != parent { // it ended meanwhile
		return errors.New("who started it has ended")
	}
	return nil
}

// ordersOf gives the orders for a process that we start ourselves.
func ordersOf(s Spec) (Orders, error) {
	o := Orders{Inherit: s.Sockets != nil, OpenFiles: s.Limits.GetOpenFiles(), NoNewPrivileges: s.Sandbox.GetNoNewPrivileges()}
	if name := s.Sandbox.GetUser(); name != "" {
		a, err := lookUp(name)
		if err != nil {
			return o, err
		}
		o.User = &a
	}
	return o, nil
}
