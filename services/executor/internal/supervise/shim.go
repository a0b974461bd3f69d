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

// shimCommand is the first argument of our own program when it is to become an agent
// that must be prepared from within. An agent takes its sockets only when LISTEN_PID is
// its own process id (sd_listen_fds(3)), which nobody knows before the process is there;
// rights and limits are given up by the process itself. The orders are the second argument.
const shimCommand = "exec-agent"

// self is our own program, also when its file was replaced or deleted.
const self = "/proc/self/exe"

// notExecuted is how a shell says that a program cannot be executed.
const notExecuted = 126

func isShim(args []string) bool { return len(args) > 3 && args[1] == shimCommand }

// What is prepared belongs to a process's first thread.
func init() {
	if isShim(os.Args) {
		runtime.LockOSThread()
	}
}

// command gives the command that a slot's process is started with.
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

// Beside gives the command of a program that is run beside a slot's process, with the
// rights that it has and the files that it may open, whoever supervises the process.
func (s Spec) Beside(program string, args []string) (path string, all []string, err error) {
	s.Sockets = nil
	orders, err := ordersOf(s)
	if err != nil || orders == (Orders{}) {
		return program, args, err
	}
	all, err = orders.Arguments(program, args)
	return self, all, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Shim becomes the agent when the program was started for that, and does nothing
// otherwise. A program that supervises calls it before anything else.
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

// beTraceable lets an executor that is started later take the sockets out of this
// process, whose parent it is not. Where it matters the kernel says no unless we said yes
// (Yama); elsewhere this is refused, and not needed.
func beTraceable() {
	if !mayTrace() {
		_ = unix.Prctl(unix.PR_SET_PTRACER, unix.PR_SET_PTRACER_ANY, 0, 0, 0)
	}
}

// mayTrace says whether an executor with our rights may look into any process.
func mayTrace() bool {
	var data [2]unix.CapUserData // the kernel writes both
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}
