package supervise

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

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
