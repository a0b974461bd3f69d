package supervise

import (
	"cmp"
	"os"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// Spec describes how to run one slot's process.
type Spec struct {
	Agent       string
	Image       string // the image's id; with the agent it names the slot
	Name        string // for people
	Record      string // the path of the slot's record
	Output      string // stdout and stderr are appended to this file
	Dir         string // the working directory
	Path        string
	Args        []string
	Env         []string
	StopTimeout time.Duration // 0 means DefaultStopTimeout
	Notify      bool          // the process sends READY=1
	Limits      *imagev1.Limits
	Sandbox     *imagev1.Sandbox

	// Hold blocks the restart of an ended process until it returns; it returns false when stop was closed before. Nil
	// does not block.
	Hold func(stop <-chan struct{}) bool

	// Cause returns what keeps the process from running, after it ended or was not started. Nil knows none.
	Cause func() Cause

	// Sockets returns the process's listening sockets at each start; nil when it has none. The files are closed after
	// the start.
	Sockets func() (names []string, files []*os.File, err error)
}

// DefaultStopTimeout applies when a manifest sets none (image.proto, Run).
const DefaultStopTimeout = 10 * time.Second

// Held waits until the process may be started again, and returns false when stop was closed before. It reads only what
// never changes: the environment may be set meanwhile.
func (s *Spec) Held(stop <-chan struct{}) bool { return s.Hold == nil || s.Hold(stop) }

// StopWithin returns how long the process has to end after SIGTERM.
func (s *Spec) StopWithin() time.Duration {
	return cmp.Or(s.StopTimeout, DefaultStopTimeout)
}
