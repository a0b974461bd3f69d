package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// The polling of an output file's size: often while the file grows fast, as it may after a start, and less and less
// often while it does not.
const (
	outputOften  = 50 * time.Millisecond
	outputSeldom = 2 * time.Second
)

// openOutput opens an output file without following a link and without waiting for a writer of a pipe: an agent may
// write in its directory, and must not have the executor read or write another file.
func openOutput(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open output: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !regular(info) {
		err = fault.New(fault.Invalid, "open output: %s is not a regular file of one name", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// regular reports whether a file is regular and has no other name, by which it might be another program's.
func regular(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode().IsRegular() && (!ok || s.Nlink <= 1)
}

// OpenOutput opens an output file for appending; no other user may read it.
func OpenOutput(path string) (*os.File, error) {
	return openOutput(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
}

// BoundOutput keeps an output file near its bound until its process has ended, and marks when it grew.
func (p Policy) BoundOutput(path string, ended <-chan struct{}, log zerolog.Logger) {
	m := &marker{path: path}
	was, at := int64(0), time.Now()
	for every := outputOften; Pause(ended, every); {
		size, cut := p.tendOutput(m, log)
		now := time.Now()
		every = p.nextLook(growth{from: was, to: size, took: now.Sub(at)}, cut, every)
		if was, at = size, now; cut {
			was = 0
		}
	}
}

// growth is how an output file grew between two looks.
type growth struct {
	from, to int64
	took     time.Duration
}

// nextLook returns the time until the next look at an output file: half of the time in which it reaches its bound when
// it grows on as it did, and twice the last one at most.
func (p Policy) nextLook(g growth, cut bool, last time.Duration) time.Duration {
	next, room := min(2*last, outputSeldom), p.OutputBytes-g.to
	if cut {
		next, room = outputOften, p.OutputBytes
	}
	if grew := g.to - g.from; grew > 0 {
		next = min(next, time.Duration(float64(g.took)*float64(room)/float64(2*grew)))
	}
	return max(next, outputOften/2)
}

// cutting is held while a file is cut or read: in an overlap two processes write to the same one.
var cutting sync.Mutex

// tendOutput cuts the output file when it is too large, and marks when it grew otherwise. It returns the size before.
func (p Policy) tendOutput(m *marker, log zerolog.Logger) (size int64, cut bool) {
	cutting.Lock()
	defer cutting.Unlock()
	info, err := os.Lstat(m.path)
	if err != nil {
		return 0, false
	}
	if info.Size() < p.OutputBytes {
		if err := m.mark(info.Size(), time.Now()); err != nil {
			log.Debug().Err(err).Msg("growth of output not marked")
		}
		return info.Size(), false
	}
	if err := p.cutOutput(m.path, info.Size()); err != nil {
		log.Warn().Err(err).Msg("output not cut")
	}
	return info.Size(), true
}

// cutOutput cuts an output file, which had a size a moment ago. The agent has it open for appending, so its end is
// copied, with what the agent writes meanwhile, and the file truncated as soon as nothing more is there to copy.
func (p Policy) cutOutput(path string, size int64) error {
	f, err := openOutput(path, os.O_RDWR)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// Cut also when a full disk cannot take the copy.
	from, n, kept := p.copyEnd(f, size, before(path))
	if err := f.Truncate(0); err != nil {
		return errors.Join(kept, fmt.Errorf("cut output: %w", err))
	}
	return errors.Join(kept, moveMarks(path, max(size, from+n), n))
}

// mostCopies is how often the end of an output file is copied again, because the agent writes faster than that.
const mostCopies = 4

// copyEnd copies the end of an output file. It returns the offset where the copy begins, and its length.
func (p Policy) copyEnd(f *os.File, size int64, to string) (from, n int64, err error) {
	kept, err := openOutput(to, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return size, 0, err
	}
	defer func() { _ = kept.Close() }()
	for range mostCopies {
		from = max(0, size-p.OutputBytes)
		if n, err = copyOutput(kept, f, from, 2*p.OutputBytes); err != nil || n < 2*p.OutputBytes {
			break
		}
		if size, err = f.Seek(0, io.SeekEnd); err != nil {
			break
		}
	}
	return from, n, err
}

// copyOutput replaces what a file holds with an output from an offset on, up to its end or most bytes.
func copyOutput(to, f *os.File, from, most int64) (int64, error) {
	_, err := f.Seek(from, io.SeekStart)
	if err = errors.Join(err, to.Truncate(0)); err != nil {
		return 0, fmt.Errorf("keep output: %w", err)
	}
	n, err := io.Copy(io.NewOffsetWriter(to, 0), io.LimitReader(f, most))
	if err != nil {
		return n, fmt.Errorf("keep output: %w", err)
	}
	return n, nil
}

// before returns the file with the part before that an output file was cut off.
func before(path string) string { return path + ".1" }

// writeOutput writes a file beside an output file.
func writeOutput(path string, data []byte) error {
	f, err := openOutput(path, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// lastLineBytes bounds LastLine: it is part of a reason.
const lastLineBytes = 160

// LastLine returns the last line of an output from a position on, without secrets; "" without one.
func LastLine(path string, from int64, secrets map[string]string) string {
	lines := strings.Split(strings.TrimSpace(Tail(path, from, 4<<10)), "\n")
	line := secret.Scrub(strings.TrimSpace(lines[len(lines)-1]), secrets)
	return strings.ToValidUTF8(line[:min(len(line), lastLineBytes)], "")
}

// Tail returns the end of an output from a position on, at most n bytes, as valid text.
func Tail(path string, from int64, n int64) string {
	cutting.Lock()
	defer cutting.Unlock()
	x, err := Output(path).extent()
	var text []byte
	for at := max(x.begin(from), x.end-n); err == nil && at < x.end; {
		var part []byte
		if part, err = Output(path).bytes(x, at, int(x.end-at)); len(part) == 0 {
			break
		}
		text, at = append(text, part...), at+int64(len(part))
	}
	return visible.Text(strings.ToValidUTF8(string(text), "?"))
}
