package journal

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// ErrDamaged reports that the journal's file cannot be used as it is on the disk. After that
// the journal only answers with this error; another Open starts anew.
var ErrDamaged = errors.New("the journal is damaged")

// guarded does f, in which the database may panic, or read beyond the end of a file that
// was cut: it is mapped into memory.
func (j *Journal) guarded(f func() error) (err error) {
	if j.broken.Load() {
		return ErrDamaged
	}
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		r := recover()
		if r == nil {
			return
		}
		if !ofDatabase(r) {
			panic(r)
		}
		j.broken.Store(true)
		err = fmt.Errorf("%w: %v", ErrDamaged, r)
	}()
	return f()
}

// ofDatabase reports whether a panic is about the file: a fault of memory, or one of
// bbolt's assertions, which are texts. What else panics is a defect of ours.
func ofDatabase(r any) bool {
	if _, text := r.(string); text {
		return true
	}
	err, ok := r.(runtime.Error)
	if !ok {
		return false
	}
	_, fault := err.(interface{ Addr() uintptr })
	return fault
}

// has reports whether a state has what every journal has that was opened: pages of zeros in
// the place of others make an empty one.
func (j *Journal) has(tx *bbolt.Tx) error {
	if j.id == "" {
		return nil
	}
	for _, b := range buckets {
		if tx.Bucket(b) == nil {
			j.broken.Store(true)
			return fmt.Errorf("%w: it has no %s", ErrDamaged, b)
		}
	}
	return nil
}

// Here reports whether the file at the journal's path is still this journal, with
// ErrDamaged when it is gone or another one.
func (j *Journal) Here() error {
	if j.broken.Load() {
		return ErrDamaged
	}
	own, err := j.file.Stat()
	if err != nil {
		return fmt.Errorf("look at journal: %w", err)
	}
	if now, err := os.Stat(j.path); err == nil && os.SameFile(own, now) {
		return nil
	}
	j.broken.Store(true)
	return fmt.Errorf("%w: %s is gone, or another file", ErrDamaged, j.path)
}

// Close closes the journal. Of one that is damaged only the file is closed: the database's
// locks may never be released. What is mapped of it stays, and with it the file's lock, which
// is given up here.
func (j *Journal) Close() error {
	if !j.broken.Load() {
		return j.db.Close()
	}
	err := unix.Flock(int(j.file.Fd()), unix.LOCK_UN)
	return errors.Join(err, j.file.Close())
}
