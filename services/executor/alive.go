package executor

import (
	"os"

	"github.com/garrison-fleet/garrison/services/executor/internal/kin"
)

// process is the process that wrote a status. Its id alone does not tell: the kernel gives
// it to another one, and it means something else in another namespace, as on the host of
// a container.
type process struct {
	Pid       int    `json:"pid,omitempty"`
	Started   uint64 `json:"process_started,omitempty"` // in clock ticks since the boot
	Namespace string `json:"pid_namespace,omitempty"`
}

// thisProcess gives this one.
func thisProcess() process {
	p := process{Pid: os.Getpid(), Namespace: pidNamespace()}
	p.Started, _ = kin.StartTime(p.Pid)
	return p
}

// gone says whether the process has ended. One that cannot be judged from here, since it is
// of another namespace or did not say when it started, is not gone.
func (p process) gone() bool {
	if p.Pid == 0 || p.Started == 0 || p.Namespace == "" || p.Namespace != pidNamespace() {
		return false
	}
	started, ok := kin.StartTime(p.Pid)
	return !ok || started != p.Started
}

// pidNamespace names the namespace of this process's id; empty when it cannot be read.
func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}
