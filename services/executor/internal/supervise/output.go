package supervise

import (
	"errors"
	"os"
	"sync"
	"time"
)

// How often an output file's size is looked at: often while it grows fast, as it may
// after each start, and ever more seldom while it does not.
const (
	outputOften  = 50 * time.Millisecond
	outputSeldom = 2 * time.Second
)

// boundOutput keeps the output file below its bound until the process has ended.
func (u *Unit) boundOutput(ended <-chan struct{}) {
	for every := outputOften; ; every = min(2*every, outputSeldom) {
		select {
		case <-ended:
			return
		case <-time.After(every):
		}
		if u.cutOutput() {
			every = outputOften / 2
		}
	}
}

// cutting is held while a file is cut: in an overlap two processes have the same one.
var cutting sync.Mutex

// cutOutput cuts the output file when it is too large. The agent has it open for
// appending, so its end is copied and the file truncated; what is written between the two is lost.
func (u *Unit) cutOutput() (cut bool) {
	cutting.Lock()
	defer cutting.Unlock()
	info, err := os.Stat(u.spec.Output)
	if err != nil || info.Size() < u.policy.OutputBytes {
		return false
	}
	tail := Tail(u.spec.Output, 0, u.policy.OutputBytes)
	// The end is worth less than the disk: a full one must not keep the file from being cut.
	kept := os.WriteFile(u.spec.Output+".1", []byte(tail), 0o600)
	if err := errors.Join(kept, os.Truncate(u.spec.Output, 0)); err != nil {
		u.log.Warn().Err(err).Msg("output not cut")
	}
	return true
}
