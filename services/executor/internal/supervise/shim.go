package supervise

import (
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
// that has sockets. An agent takes its sockets only when LISTEN_PID is its own process id
// (sd_listen_fds(3)), which nobody knows before the process is there: so the process
// itself says it, and then becomes the agent.
const shimCommand = "exec-agent"

// self is our own program, also when its file was replaced or deleted.
const self = "/proc/self/exe"

// notExecuted is how a shell says that a program cannot be executed.
const notExecuted = 126

func isShim(args []string) bool { return len(args) > 2 && args[1] == shimCommand }

// A permission to be traced belongs to a process's first thread.
func init() {
	if isShim(os.Args) {
		runtime.LockOSThread()
	}
}

// command gives the command that a slot's process is started with.
func (s Spec) command() (*exec.Cmd, error) {
	if s.Sockets == nil {
		cmd := exec.Command(s.Path, s.Args...)
		cmd.Env = slices.Clone(s.Env)
		return cmd, nil
	}
	names, files, err := s.Sockets()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{shimCommand, s.Path}, s.Args...)...)
	cmd.ExtraFiles = files // from file descriptor 3 on
	cmd.Env = append(slices.Clone(s.Env), "LISTEN_FDS="+strconv.Itoa(len(files)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	return cmd, nil
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
	if !mayTrace() {
		// An executor that is started later must get the sockets from this process, and
		// is not its parent. Where it matters the kernel says no unless we said yes (Yama);
		// elsewhere this is refused, and not needed.
		_ = unix.Prctl(unix.PR_SET_PTRACER, unix.PR_SET_PTRACER_ANY, 0, 0, 0)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LISTEN_PID=") })
	env = append(env, "LISTEN_PID="+strconv.Itoa(os.Getpid()))
	err := unix.Exec(args[2], args[2:], env)
	fmt.Fprintf(os.Stderr, "executor: execute %s: %v\n", args[2], err)
	os.Exit(notExecuted)
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
