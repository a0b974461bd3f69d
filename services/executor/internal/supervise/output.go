package supervise

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// How often an output file's size is looked at: often while it grows fast, as it may
// after each start, and ever more seldom while it does not.
const (
	outputOften  = 50 * time.Millisecond
	outputSeldom = 2 * time.Second
)

// BoundOutput keeps an output file below its bound until its process has ended.
func (p Policy) BoundOutput(path string, ended <-chan struct{}, log zerolog.Logger) {
	for every := outputOften; ; every = min(2*every, outputSeldom) {
		select {
		case <-ended:
			return
		case <-time.After(every):
		}
		if p.cutOutput(path, log) {
			every = outputOften / 2
		}
	}
}

// cutting is held while a file is cut: in an overlap two processes have the same one.
var cutting sync.Mutex

// cutOutput cuts the output file when it is too large. The agent has it open for
// appending, so its end is copied and the file truncated; what is written between the two is lost.
func (p Policy) cutOutput(path string, log zerolog.Logger) (cut bool) {
	cutting.Lock()
	defer cutting.Unlock()
	info, err := os.Stat(path)
	if err != nil || info.Size() < p.OutputBytes {
		return false
	}
	tail := Tail(path, 0, p.OutputBytes)
	// The end is worth less than the disk: a full one must not keep the file from being cut.
	kept := os.WriteFile(path+".1", []byte(tail), 0o600)
	if err := errors.Join(kept, os.Truncate(path, 0)); err != nil {
		log.Warn().Err(err).Msg("output not cut")
	}
	return true
}
