package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shimCommand is the first argument of the executor's own program when it is to become an agent that must be prepared
// from within: LISTEN_PID must be the agent's own process id (sd_listen_fds(3)), which is unknown before the process
// exists, and a process lowers its privileges and limits itself. The orders are the second argument.
const shimCommand = "exec-agent"

// self is the executor's own program, also when its file was replaced or deleted.
const self = "/proc/self/exe"

// notExecuted is the exit code of a shell for a program that cannot be executed.
const notExecuted = 126

func isShim(args []string) bool { return len(args) > 3 && args[1] == shimCommand }

// The preparation applies to the process's first thread.
func init() {
	if isShim(os.Args) {
		runtime.LockOSThread()
	}
}

// command returns the command that starts a slot's process.
func (s Spec) command() (*exec.Cmd, error) {
	orders, err := ordersOf(s)
	if err != nil {
		return nil, err
	}
	if orders == (Orders{}) {
		cmd := exec.Command(s.Path, s.Args...)
		cmd.Env = slices.Clone(s.Env)
		return cmd, nil
	}
	args, err := orders.Arguments(s.Path, s.Args)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = slices.Clone(s.Env)
	if s.Sockets == nil {
		return cmd, nil
	}
	names, files, err := s.Sockets()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = files // from file descriptor 3 on
	cmd.Env = append(cmd.Env, "LISTEN_FDS="+strconv.Itoa(len(files)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	return cmd, nil
}

// Beside returns the command of a program that runs beside a slot's process, with the same user, privileges and limit
// of open files, under every supervisor.
func (s Spec) Beside(program string, args []string) (path string, all []string, err error) {
	s.Sockets = nil
	orders, err := ordersOf(s)
	if err != nil || orders == (Orders{}) {
		return program, args, err
	}
	all, err = orders.Arguments(program, args)
	return self, all, err
}

// Shim becomes the agent when the program was started for that, and does nothing otherwise. A program that supervises
// calls it first.
func Shim(args []string) {
	if !isShim(args) {
		return
	}
	err := become(args[2], args[3:])
	fmt.Fprintf(os.Stderr, "executor: execute %s: %v\n", args[3], err)
	os.Exit(notExecuted)
}

func become(said string, args []string) error {
	var o Orders
	if err := json.Unmarshal([]byte(said), &o); err != nil {
		return fmt.Errorf("read orders: %w", err)
	}
	more, err := o.follow()
	if err != nil {
		return err
	}
	env := os.Environ()
	if o.Quiet {
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "NOTIFY_SOCKET=") })
	}
	for _, v := range more {
		name, _, _ := strings.Cut(v, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
	}
	return unix.Exec(args[0], args, append(env, more...))
}

// beTraceable lets a later executor, which is not the parent, take the sockets out of this process. Under Yama the
// kernel refuses that otherwise; without Yama the call fails, and is not needed.
func beTraceable() {
	if !mayTrace() {
		_ = unix.Prctl(unix.PR_SET_PTRACER, unix.PR_SET_PTRACER_ANY, 0, 0, 0)
	}
}

// mayTrace reports whether an executor with the same privileges may read any process.
func mayTrace() bool {
	var data [2]unix.CapUserData // the kernel writes both
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}

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
