package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Beside an output file stands OutputMarks: the position of the file's first byte, counted from the first byte that
// the agent ever wrote, and marks of when the file had which length. A mark of a time and a position means that what
// is behind the position was written after the time. Before the marks is where which version was started. The file is
// a help for readers: a broken or lost one costs them the time, and never output.
type outputMarks struct {
	base   int64 // the position of the first byte of the output file
	starts []versionStart
	marks  []Mark
}

// versionStart is where a version of the agent was started after another one.
type versionStart struct {
	position int64
	version  string
}

// Mark is one line of the file: at a time, an output had this length.
type Mark struct {
	At       time.Time
	Position int64
}

const (
	// marksName ends the name of the file with the marks of an output file.
	marksName = ".marks"
	// markEvery is the time between two marks.
	markEvery = 2 * time.Second
	// mostMarks is how many marks are kept. Of more, every second one of the older half is dropped.
	mostMarks = 2048
	// mostStarts is how many starts of versions are kept, and versionBytes bounds a version.
	mostStarts   = 64
	versionBytes = 64
	// startsBytes is more than the starts take up, which come before the marks: a reader asks for each part.
	startsBytes = 8 << 10
	// marksBytes bounds what is read of the file, and mostPosition its numbers; an agent may write it too.
	marksBytes   = 1 << 17
	mostPosition = 1 << 60
)

// OutputMarks returns the file with the marks of an output file.
func OutputMarks(output string) string { return output + marksName }

// readMarks reads the marks of an output file. Lines that are no marks are left out.
func readMarks(output string) outputMarks { return readMarksIn(output, marksBytes) }

// readMarksIn reads those in the first bytes of the file.
func readMarksIn(output string, most int64) outputMarks {
	var m outputMarks
	f, err := openOutput(OutputMarks(output), os.O_RDONLY)
	if err != nil {
		return m
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(io.LimitReader(f, most))
	for first := true; lines.Scan(); first = false {
		var at, position int64
		if first {
			m.base = baseIn(lines.Text())
		} else if s, ok := startIn(lines.Text()); ok {
			m.starts = append(m.starts, s)
		} else if n, _ := fmt.Sscanf(lines.Text(), "%d %d", &at, &position); n == 2 && sound(position) {
			m.marks = append(m.marks, Mark{time.UnixMilli(at), position})
		}
	}
	return m
}

// readBase reads the position of the first byte of an output file alone: a reader asks for it ten times a second.
func readBase(output string) int64 {
	f, err := openOutput(OutputMarks(output), os.O_RDONLY)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	first := make([]byte, 32) // more than the line has
	n, _ := f.ReadAt(first, 0)
	line, _, _ := strings.Cut(string(first[:n]), "\n")
	return baseIn(line)
}

func baseIn(line string) int64 {
	var base int64
	if n, _ := fmt.Sscanf(line, "base %d", &base); n != 1 || !sound(base) {
		return 0
	}
	return base
}

func startIn(line string) (versionStart, bool) {
	rest, ok := strings.CutPrefix(line, "version ")
	at, version, _ := strings.Cut(rest, " ")
	position, err := strconv.ParseInt(at, 10, 64)
	version = strings.ToValidUTF8(version[:min(len(version), versionBytes)], "")
	return versionStart{position, version}, ok && err == nil && sound(position)
}

func sound(position int64) bool { return position >= 0 && position <= mostPosition }

// write replaces the marks of an output file.
func (m outputMarks) write(output string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "base %d\n", m.base)
	for _, s := range m.starts[max(0, len(m.starts)-mostStarts):] {
		fmt.Fprintf(&b, "version %d %s\n", s.position, s.version)
	}
	for _, k := range m.marks {
		b.WriteString(k.line())
	}
	return writeOutput(OutputMarks(output), b.Bytes())
}

func (k Mark) line() string { return fmt.Sprintf("%d %d\n", k.At.UnixMilli(), k.Position) }

// thin drops every second mark of the older half.
func (m *outputMarks) thin() {
	half := len(m.marks) / 2
	var kept []Mark
	for n, k := range m.marks {
		if n >= half || n%2 == 0 {
			kept = append(kept, k)
		}
	}
	m.marks = kept
}

// since returns a position behind which is everything that was written at a time or later.
func (m outputMarks) since(at time.Time) int64 {
	var position int64
	for _, k := range m.marks {
		if !k.At.After(at) {
			position = max(position, k.Position)
		}
	}
	return position
}

// marker adds the marks of one process's output.
type marker struct {
	path  string
	known bool // size is that of the file
	size  int64
	at    time.Time
}

// mark notes the length of the output file when it grew. The caller holds cutting.
func (m *marker) mark(size int64, now time.Time) error {
	if m.known && (size == m.size || now.Sub(m.at) < markEvery && now.After(m.at)) {
		return nil
	}
	have := readMarks(m.path)
	k := Mark{now, have.base + size}
	m.known, m.size, m.at = true, size, now
	if n := len(have.marks); n > 0 && have.marks[n-1].Position == k.Position {
		return nil // nothing was written since
	}
	if have.marks = append(have.marks, k); len(have.marks) > mostMarks {
		have.thin()
		return have.write(m.path)
	}
	return appendMark(m.path, have, k)
}

func appendMark(output string, have outputMarks, k Mark) error {
	f, err := openOutput(OutputMarks(output), os.O_WRONLY|os.O_APPEND)
	if errors.Is(err, fs.ErrNotExist) {
		return have.write(output)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = f.WriteString(k.line())
	return err
}

// moveMarks notes that an output file of a size was cut to its last bytes.
func moveMarks(output string, size, kept int64) error {
	m := readMarks(output)
	m.base += size
	m.marks = slices.DeleteFunc(m.marks, func(k Mark) bool { return k.Position < m.base-kept })
	for len(m.starts) > 1 && m.starts[1].position <= m.base-kept {
		m.starts = m.starts[1:]
	}
	return m.write(output)
}

// Starts notes that what is written from now on is of a version that is started.
func (o Output) Starts(version string) error {
	cutting.Lock()
	defer cutting.Unlock()
	m := readMarks(string(o))
	if n := len(m.starts); n > 0 && m.starts[n-1].version == version {
		return nil
	}
	size, err := sizeOf(string(o))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.starts = append(m.starts, versionStart{m.base + size, version})
	return m.write(string(o))
}

// VersionAt returns the version that was started last before a position, if that was noted, and the position where the
// next one was.
func (o Output) VersionAt(position int64) (version string, until int64) {
	cutting.Lock()
	defer cutting.Unlock()
	until = math.MaxInt64
	for _, s := range readMarksIn(string(o), startsBytes).starts {
		if s.position <= position {
			version = s.version
		} else {
			until = min(until, s.position)
		}
	}
	return version, until
}

// WrittenBy returns, in order, by when the bytes between two positions were written: each mark is of those before its
// position that the mark before it is not of. What is not marked yet was written by now. A part of an output that has
// more than most marks ends with the last of them, and the position of that is returned.
func (o Output) WrittenBy(from, to int64, now time.Time, most int) (marks []Mark, until int64) {
	cutting.Lock()
	defer cutting.Unlock()
	last := from
	for _, k := range readMarks(string(o)).marks {
		if k.Position <= last { // before the part, or of a broken file
			continue
		}
		last = k.Position
		marks = append(marks, Mark{k.At, min(k.Position, to)})
		if k.Position >= to || len(marks) == most {
			return marks, min(k.Position, to)
		}
	}
	return append(marks, Mark{now, to}), to
}

// MoveTo moves an output to another place on the disk, in place of the one there. A rerun after a crash loses nothing:
// the file itself is removed last and moved last, so while one is at the new place nothing was moved yet.
func (o Output) MoveTo(to string) error {
	cutting.Lock()
	defer cutting.Unlock()
	size, err := sizeOf(string(o))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was written, or it was moved
	}
	if err == nil && size >= DefaultPolicy.OutputBytes {
		err = DefaultPolicy.cutOutput(string(o), size)
	}
	err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700))
	if _, there := os.Lstat(to); there == nil {
		err = errors.Join(err, eachPart(func(part func(string) string) error { return os.Remove(part(to)) }))
	}
	return errors.Join(err, eachPart(func(part func(string) string) error {
		return os.Rename(part(string(o)), part(to))
	}))
}

// eachPart calls do for the files of an output, for the file itself last. A file that is missing is no error.
func eachPart(do func(part func(output string) string) error) error {
	var failed error
	for _, part := range []func(string) string{before, OutputMarks, func(path string) string { return path }} {
		if err := do(part); !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
