package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Output reads what an agent wrote, by positions that are counted from the first byte that it ever wrote. So a position
// stays valid when the file is cut. It is safe for concurrent use.
type Output string

// extent is what is kept of an output: from first on in the file before, from base on in the file itself, to end.
type extent struct {
	first, base, end int64
}

// extent returns what is kept. The caller holds cutting. The error is NotFound when the agent never wrote.
func (o Output) extent() (extent, error) {
	size, err := sizeOf(string(o))
	if errors.Is(err, fs.ErrNotExist) {
		return extent{}, fault.New(fault.NotFound, "there is no output")
	}
	if err != nil {
		return extent{}, err
	}
	base := readBase(string(o))
	older, err := sizeOf(before(string(o)))
	if err != nil {
		older = 0 // never cut, or damaged
	}
	return extent{first: max(0, base-older), base: base, end: base + size}, nil
}

func sizeOf(path string) (int64, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, fmt.Errorf("look at output: %w", err)
	}
	if !regular(info) {
		return 0, fault.New(fault.Invalid, "%s is not a regular file of one name", path)
	}
	return info.Size(), nil
}

// End returns the position behind the last byte. The error is NotFound when the agent never wrote.
func (o Output) End() (int64, error) {
	cutting.Lock()
	defer cutting.Unlock()
	x, err := o.extent()
	return x.end, err
}

// Next returns the position of what is written from now on; 0 when the agent never wrote.
func (o Output) Next() int64 {
	end, err := o.End()
	if err != nil {
		return 0
	}
	return end
}

// Read reads up to n bytes from a position on. It returns the bytes, the position behind them, and whether what was at
// the position is no longer kept, so that the bytes begin later.
func (o Output) Read(position int64, n int) (data []byte, next int64, cut bool, err error) {
	cutting.Lock()
	defer cutting.Unlock()
	x, err := o.extent()
	if err != nil {
		return nil, position, false, err
	}
	from := x.begin(position)
	data, err = o.bytes(x, from, n)
	return data, from + int64(len(data)), from != position, err
}

// begin returns the nearest position that is kept. One behind the end is of another installation of the agent.
func (x extent) begin(position int64) int64 {
	if position > x.end {
		return x.first
	}
	return max(position, x.first)
}

// bytes reads from one of the two files. The caller holds cutting.
func (o Output) bytes(x extent, from int64, n int) ([]byte, error) {
	path, offset, size := string(o), from-x.base, x.end-from
	if from < x.base {
		path, offset, size = before(string(o)), from-x.first, x.base-from
	}
	if size == 0 {
		return nil, nil
	}
	f, err := openOutput(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	buf := make([]byte, min(int64(n), size))
	have, _ := f.ReadAt(buf, offset) // the file may be shorter by now
	return buf[:have], nil
}

// Since returns a position behind which is everything that was written at a time or later. It may be a few seconds
// earlier.
func (o Output) Since(at time.Time) (int64, error) {
	cutting.Lock()
	defer cutting.Unlock()
	x, err := o.extent()
	if err != nil {
		return 0, err
	}
	m := readMarks(string(o))
	position := m.since(at)
	if position > x.end {
		position = x.first // the marks are of another file
	}
	return max(position, x.first), nil
}

const (
	// lookBack is how much is read at a time when lines are counted from the end.
	lookBack = 64 << 10
	// farthestBack bounds it in all. It is more than is kept, but an agent may make the file before any length.
	farthestBack = 64 << 20
)

// Last returns the position where the last n lines begin. A line break at the very end ends the last line.
func (o Output) Last(n int) (int64, error) {
	cutting.Lock()
	defer cutting.Unlock()
	x, err := o.extent()
	if err != nil || n <= 0 {
		return x.end, err
	}
	left, end, first := n, x.end, max(x.first, x.end-farthestBack)
	for end > first {
		from := max(first, end-lookBack)
		if from < x.base && end > x.base {
			from = x.base // one file at a time
		}
		data, err := o.bytes(x, from, int(end-from))
		if err != nil {
			return x.end, err
		}
		for {
			at := bytes.LastIndexByte(data, '\n')
			if at < 0 {
				break
			}
			if position := from + int64(at) + 1; position < x.end {
				if left--; left == 0 {
					return position, nil
				}
			}
			data = data[:at]
		}
		end = from
	}
	return first, nil
}
