package status

import (
	"os"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// process is the process that wrote a status. Its id alone does not identify it: the kernel reuses
// ids, and an id means another process in another namespace, as on the host of a container.
type process struct {
	Pid       int    `json:"pid,omitempty"`
	Started   uint64 `json:"process_started,omitempty"` // in clock ticks since the boot
	Namespace string `json:"pid_namespace,omitempty"`
}

// thisProcess returns this one.
func thisProcess() process {
	p := process{Pid: os.Getpid(), Namespace: pidNamespace()}
	p.Started, _ = proctree.StartTime(p.Pid)
	return p
}

// gone reports whether the process has ended. A process of another namespace, or without a start
// time, does not count as gone.
func (p process) gone() bool {
	if p.Pid == 0 || p.Started == 0 || p.Namespace == "" || p.Namespace != pidNamespace() {
		return false
	}
	started, ok := proctree.StartTime(p.Pid)
	return !ok || started != p.Started
}

// pidNamespace returns the namespace of this process's id, or "" when it cannot be read.
func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}
