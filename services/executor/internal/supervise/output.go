package supervise

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// The polling of an output file's size: often while the file grows fast, as it may after a start, and less and less
// often while it does not.
const (
	outputOften  = 50 * time.Millisecond
	outputSeldom = 2 * time.Second
)

// OpenOutput opens an output file for appending; no other user may read it.
func OpenOutput(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open output: %w", err)
	}
	return f, nil
}

// BoundOutput keeps an output file below its bound until its process has ended.
func (p Policy) BoundOutput(path string, ended <-chan struct{}, log zerolog.Logger) {
	for every := outputOften; Pause(ended, every); every = min(2*every, outputSeldom) {
		if p.cutOutput(path, log) {
			every = outputOften / 2
		}
	}
}

// cutting is held while a file is cut: in an overlap two processes write to the same one.
var cutting sync.Mutex

// cutOutput cuts the output file when it is too large. The agent has it open for appending, so its end is copied and
// the file truncated; what the agent writes between the two is lost.
func (p Policy) cutOutput(path string, log zerolog.Logger) (cut bool) {
	cutting.Lock()
	defer cutting.Unlock()
	info, err := os.Stat(path)
	if err != nil || info.Size() < p.OutputBytes {
		return false
	}
	tail := Tail(path, 0, p.OutputBytes)
	// Cut also when a full disk cannot take the copy.
	kept := os.WriteFile(path+".1", []byte(tail), 0o600)
	if err := errors.Join(kept, os.Truncate(path, 0)); err != nil {
		log.Warn().Err(err).Msg("output not cut")
	}
	return true
}

// Tail returns the end of an output file from an offset on, at most n bytes, as valid text.
func Tail(path string, from int64, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	if from > info.Size() {
		from = 0 // the file was cut since
	}
	from = max(from, info.Size()-n)
	buf := make([]byte, info.Size()-from)
	size, _ := f.ReadAt(buf, from)
	return strings.ToValidUTF8(strings.ReplaceAll(string(buf[:size]), "\x00", ""), "?")
}
