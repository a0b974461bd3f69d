// Package inherit decides what the programs of images inherit: agents, their set-ups, probes and rehearsals. It is the
// same with both supervisors, and the same whatever the executor was started with:
//
//	umask             022
//	nice              0
//	OOM score         0
//	blocked signals   none
//	ignored signals   none, SIGPIPE included; those in Internal as they are
//	standard input    /dev/null
//
// docs/processes.md has the whole table. Where the kernel does not let the executor change a value, as nice without
// privileges, it stays the executor's.
package inherit

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// The table.
const (
	Umask    = 0o022
	Nice     = 0
	OOMScore = 0
)

// Internal is the mask of the signals that the C library keeps for itself. A program that the C library spawns, as make
// does, ignores them, and Go cannot reset them.
const Internal = 1<<(32-1) | 1<<(33-1)

// Process sets what programs inherit from the whole process. A program that starts others calls it first.
func Process() {
	syscall.Umask(Umask)
	// Go leaves some signals of a terminal ignored that were ignored. One with a handler is reset in what is started.
	status, _ := proctree.Status(os.Getpid())
	ignored, _ := strconv.ParseUint(status["SigIgn"], 16, 64) // none without the line
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		if ignored&(1<<(s-1)) != 0 {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// Start starts a program with the rest of the table. The calling goroutine keeps its thread meanwhile.
func Start(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer clearThread()()
	if err := cmd.Start(); err != nil {
		return err
	}
	// It belongs to the process, so it cannot be set before. What the program starts in this instant has the old one.
	_ = os.WriteFile(proctree.Path(cmd.Process.Pid, "oom_score_adj"), []byte(strconv.Itoa(OOMScore)), 0)
	return nil
}

// clearThread sets the nice value and the signal mask of this thread to those of the table, and returns what undoes it.
func clearThread() (undo func()) {
	var none, mask unix.Sigset_t
	masked := unix.PthreadSigmask(unix.SIG_SETMASK, &none, &mask) == nil
	raised := false
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	nice := 20 - priority // as the kernel returns it
	if err == nil && nice != Nice {
		raised = unix.Setpriority(unix.PRIO_PROCESS, 0, Nice) == nil
	}
	return func() {
		if raised && unix.Setpriority(unix.PRIO_PROCESS, 0, nice) != nil {
			runtime.LockOSThread() // the thread ends with its goroutine, and not as it should not be
		}
		if masked {
			_ = unix.PthreadSigmask(unix.SIG_SETMASK, &mask, nil)
		}
	}
}
