// Package space holds room on a disk for what will be written there.
//
// Guarantees:
//
//  1. What is reserved is taken from the file system (fallocate(2)), so no other program gets
//     it: neither another change nor another program.
//  2. What is about to be written is given back in steps of Step: of two that write into
//     what they reserved, neither takes from the other more than that.
//  3. A reservation is one file. After a crash it is deleted like any unfinished file,
//     and nothing else remembers it.
//
// Where the file system cannot reserve, the room is looked for and not held.
package space

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Step is how much is given back at a time.
const Step = 4 << 20

// Free is what a file system still takes.
type Free struct {
	Bytes uint64
	Files uint64 // no bound when it does not count them
	Total uint64 // bytes, free or not
}

// Look returns what is free where a directory is.
func Look(dir string) (Free, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return Free{}, fmt.Errorf("look for space at %s: %w", dir, err)
	}
	f := Free{Bytes: fs.Bavail * uint64(fs.Bsize), Files: fs.Ffree, Total: fs.Blocks * uint64(fs.Bsize)}
	if fs.Files == 0 {
		f.Files = 1<<64 - 1
	}
	return f, nil
}

// Reservation is room that is held. Its methods may be called from any goroutine; none does anything with a nil one.
type Reservation struct {
	path string

	mu    sync.Mutex
	file  *os.File // nil when it is released
	held  uint64   // the size of the file
	owned uint64   // held, without what was announced by Use and not given back yet
	keep  uint64   // what Use does not release
}

// Reserve takes room in the file at path, whose directory must be there; keep of it is
// not for Use. An error is ENOSPC when there is not so much; then nothing is held.
func Reserve(path string, bytes, keep uint64) (*Reservation, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("reserve space: %w", err)
	}
	r := &Reservation{path: path, file: f, held: bytes, owned: bytes, keep: keep}
	if bytes > 1<<62 {
		err = syscall.ENOSPC
	} else if bytes > 0 {
		err = allocate(f, int64(bytes))
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		r.held, r.owned, err = 0, 0, nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reserve %d bytes: %w", bytes, err), r.Release())
	}
	return r, nil
}

func allocate(f *os.File, bytes int64) error {
	for {
		if err := unix.Fallocate(int(f.Fd()), 0, 0, bytes); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Held is how much is held now.
func (r *Reservation) Held() uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// Use reports that n bytes will be written now in the place of what is held.
func (r *Reservation) Use(n uint64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owned = max(r.owned-min(n, r.owned), r.keep)
	if r.held > r.owned {
		r.shrink(max(r.owned-min(Step, r.owned), r.keep))
	}
}

// ShrinkTo releases what is held beyond n bytes.
func (r *Reservation) ShrinkTo(n uint64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owned = min(r.owned, n)
	if r.held > n {
		r.shrink(n)
	}
}

// shrink returns room back. What cannot be given back now is with the release.
func (r *Reservation) shrink(to uint64) {
	if r.file != nil && r.file.Truncate(int64(to)) == nil {
		r.held = to
	}
}

// Release returns everything back and deletes the file.
func (r *Reservation) Release() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := errors.Join(r.file.Close(), os.Remove(r.path))
	r.file, r.held, r.owned = nil, 0, 0
	return err
}
