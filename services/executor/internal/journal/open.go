package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/services/executor/internal/boltfile"
)

// Origin is how a journal was found when it was opened.
type Origin struct {
	Made  bool   // it is new and empty
	Lost  string // why what was there before it does not count; empty when nothing was, or everything does
	Aside string // where that is now; empty when there was no file
}

// NoteLost is where a journal keeps why the one before it was lost, until everything on the
// disk is explained again. A new one has it from its first write on.
const NoteLost = "inventory-lost"

// NoteEmptied is where a journal keeps for which reinstall the server was emptied; "" outside of one.
const NoteEmptied = "emptied"

// NoteServer is the note of the server whose journal it is, for a start without an identity.
const NoteServer = "server"

// noJournal is why an inventory is compared that was never written, as after a join.
const noJournal = "there was no journal"

const (
	openWithin = 2 * time.Second
	lookWithin = time.Second
	lockEvery  = 20 * time.Millisecond
)

// Open opens the journal at path and makes it if it is not there. One that is damaged, or
// older than its mark says, is set aside, and an empty one takes its place; Origin has the reason.
// An error is Conflict when another executor has it, and Invalid, with nothing written,
// when a newer program wrote it.
func Open(path string) (*Journal, error) {
	if err := Format.Check(markOf(path), readMark(path).Stamp); err != nil {
		return nil, err
	}
	m := readMark(path)
	j, why := openWhole(path, m)
	if why == nil {
		lost := ""
		if j.origin.Made && m.Journal != "" { // this is no beginning
			lost = "the journal is gone, and its mark is there"
		}
		return j.begin(Origin{Made: j.origin.Made, Lost: lost})
	}
	if !errors.Is(why, ErrDamaged) && !errors.Is(why, ErrOlder) {
		return nil, why
	}
	return renew(path, why.Error())
}

// Renew sets aside a journal that is not to be believed, and returns an empty one.
func (j *Journal) Renew(why string) (*Journal, error) {
	if err := j.Close(); err != nil {
		return nil, err
	}
	return renew(j.path, why)
}

func renew(path, why string) (*Journal, error) {
	aside, err := setAside(path)
	if err != nil {
		return nil, err
	}
	j, err := openWhole(path, mark{})
	if err != nil {
		return nil, err
	}
	return j.begin(Origin{Made: true, Lost: why, Aside: aside})
}

// begin keeps the mark of a journal from here on, and counts the start.
func (j *Journal) begin(o Origin) (*Journal, error) {
	j.origin, j.marked = o, true
	err := j.Update(func(tx *Tx) error {
		if o.Lost != "" {
			return errors.Join(tx.Advance(), tx.SetNote(NoteLost, o.Lost))
		}
		return tx.Advance()
	})
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// OpenWhole opens a journal, and refuses with ErrDamaged one in which anything cannot be
// read. An error is fs.ErrNotExist when the file is missing, and otherwise as Open's. Its mark is
// not looked at.
func OpenWhole(path string) (*Journal, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if info.Size() == 0 {
		return nil, fmt.Errorf("%w: %s is empty", ErrDamaged, path)
	}
	return openWhole(path, mark{})
}

// openWhole opens a journal that is whole and not older than a mark, or makes one.
func openWhole(path string, m mark) (*Journal, error) {
	made, err := check(path, unix.LOCK_EX, openWithin)
	if err != nil {
		return nil, err
	}
	j, err := open(path, &bbolt.Options{Timeout: openWithin, NoFreelistSync: true})
	if err != nil {
		return nil, err
	}
	j.origin.Made = made
	if err := j.ours(m); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// ours reads everything, and only then writes what a journal of this program has.
func (j *Journal) ours(m mark) error {
	if err := j.Read(func(tx *Tx) error { return tx.checkFormat(j.path) }); err != nil {
		return err
	}
	if !j.origin.Made {
		if err := j.Read(func(tx *Tx) error { return tx.older(m) }); err != nil {
			return err
		}
		if _, err := j.Examine(); err != nil {
			return err
		}
	}
	reserve(j.path)
	err := j.Update(func(tx *Tx) error {
		if err := tx.found(); err != nil || !j.origin.Made {
			return err
		}
		return tx.SetNote(NoteLost, noJournal)
	})
	if err != nil {
		return fmt.Errorf("open journal %s: %w", j.path, err)
	}
	return j.Read(func(tx *Tx) error { j.id = tx.ID(); return nil })
}

// open opens the database, whose pages were checked.
func open(path string, o *bbolt.Options) (*Journal, error) {
	j := &Journal{path: path, news: make(chan struct{}, 1)}
	o.OpenFile = func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
		f, err = os.OpenFile(name, flag, mode)
		j.file = f
		return f, err
	}
	err := j.guarded(func() (err error) {
		j.db, err = bbolt.Open(path, 0o600, o)
		return err
	})
	if isLocked(err) {
		return nil, inUse(path)
	}
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	return j, nil
}

// Look looks at the journal at path, of any format, and changes nothing. An error is Conflict when an
// executor has it, ErrDamaged when it cannot be read, and ErrOlder when it was set back.
func Look(path string, f func(*Tx) error) error {
	if _, err := check(path, unix.LOCK_SH, lookWithin); err != nil {
		return err
	}
	j, err := open(path, &bbolt.Options{Timeout: lookWithin, ReadOnly: true})
	if err != nil {
		return err
	}
	err = j.Read(func(tx *Tx) error {
		if err := tx.older(readMark(path)); err != nil {
			return err
		}
		return f(tx)
	})
	return errors.Join(err, j.Close())
}

// check reads the file at path while no executor has it. What is empty or not there is yet
// to be made.
func check(path string, lock int, within time.Duration) (made bool, err error) {
	if err := strictdir.File(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	f, err := locked(path, lock, within)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("look at journal %s: %w", path, err)
	}
	if info.Size() == 0 {
		return true, nil
	}
	if err := boltfile.Check(f, info.Size()); err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return false, nil
}

// locked opens the file at path with its lock, which is the database's own.
func locked(path string, how int, within time.Duration) (*os.File, error) {
	for end := time.Now().Add(within); ; time.Sleep(lockEvery) {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open journal: %w", err)
		}
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil && still(f, path) {
			return f, nil
		}
		_ = f.Close()
		if time.Now().After(end) {
			return nil, inUse(path)
		}
	}
}

// Held reports whether an executor has the journal at path open. It does not wait, and changes nothing.
func Held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// still reports whether f is what is at path: it may have been set aside before the lock.
func still(f *os.File, path string) bool {
	own, err := f.Stat()
	now, e := os.Stat(path)
	return err == nil && e == nil && os.SameFile(own, now)
}

func inUse(path string) error {
	return fault.New(fault.Conflict, "journal %s is in use: another executor runs here", path)
}

// Fits reports why this program must not use the journal at path: a newer one wrote it in a
// format of its own. Whatever else is wrong with it, Open finds.
func Fits(path string) error {
	if err := Format.Check(markOf(path), readMark(path).Stamp); err != nil {
		return err
	}
	var unfit error
	_ = Look(path, func(tx *Tx) error { // of the format nothing is known then
		unfit = tx.checkFormat(path)
		return nil
	})
	return unfit
}

const (
	asideInfix = ".damaged-"
	maxAside   = 3
)

// IsAside reports whether a file of this name is a journal that was set aside.
func IsAside(name string) bool { return strings.HasPrefix(name, "journal.db"+asideInfix) }

// setAside moves a journal out of the way, for a person to look at. The newest three stay.
func setAside(path string) (aside string, err error) {
	aside = path + asideInfix + time.Now().UTC().Format("20060102T150405.000000Z")
	if err := os.Rename(path, aside); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("set the damaged journal aside: %w", err)
	}
	all, _ := filepath.Glob(path + asideInfix + "*") // the pattern is well-formed
	slices.Sort(all)
	for _, old := range all[:max(0, len(all)-maxAside)] {
		err = errors.Join(err, os.Remove(old))
	}
	return aside, err
}
