package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	berrors "go.etcd.io/bbolt/errors"

	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/sum"
)

// Format numbers the journal. Journals from before there were numbers are read.
var Format = format.Spec{Kind: "journal", Now: 1, Floor: 1}

// noteID is where the journal keeps its random name.
const noteID = "id"

var (
	keyFormat = []byte("format")
	keyFloor  = []byte("format-floor")
	keyCount  = []byte("count")
)

func (t *Tx) stamp() format.Stamp {
	if t.tx.Bucket(bucketMeta) == nil {
		return format.Stamp{}
	}
	return format.Stamp{Format: uint32(t.number(keyFormat)), Floor: uint32(t.number(keyFloor))}
}

func (t *Tx) checkFormat(path string) error { return Format.Check(path, t.stamp()) }

// found writes what a journal has that this program uses. A newer format stays as it is.
func (t *Tx) found() error {
	for _, b := range buckets {
		if _, err := t.tx.CreateBucketIfNotExists(b); err != nil {
			return err
		}
	}
	if t.stamp().Format < Format.Now {
		if err := errors.Join(
			t.setNumber(keyFormat, uint64(Format.Now)), t.setNumber(keyFloor, uint64(Format.Floor)),
		); err != nil {
			return err
		}
	}
	if t.Note(noteID) != "" {
		return nil
	}
	return t.SetNote(noteID, rand.Text())
}

// mark is what is kept beside the journal: which one it is, and how far it had come. A
// journal that was set back is behind its mark.
type mark struct {
	format.Stamp
	Journal string `json:"journal"`
	Count   uint64 `json:"count"`
}

const markName = "journal.mark"

// markOf returns the path of a journal's mark.
func markOf(path string) string { return strings.TrimSuffix(path, ".db") + ".mark" }

// readMark returns the mark of the journal at path. One that is not there, or cannot be
// read, is empty: it proves nothing.
func readMark(path string) (m mark) {
	data, err := strictdir.ReadFile(markOf(path))
	data = bytes.TrimSpace(data)
	if err != nil || sum.Check(markName, data) != nil || json.Unmarshal(data, &m) != nil {
		return mark{}
	}
	return m
}

// mark writes the mark after the journal. One that cannot be written is behind the
// journal, which is never taken for an older one; the next one catches up.
func (j *Journal) mark(count uint64) {
	if !j.marked {
		return
	}
	_ = writeMark(markOf(j.path), mark{Stamp: Format.Stamp(), Journal: j.id, Count: count})
}

// markSize is more than a mark takes: it is written over the one before in one piece, so
// that it needs no room on a full disk and one sync.
const markSize = 256

func writeMark(path string, m mark) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	data = sum.Add(markName, data)
	data = append(data, bytes.Repeat([]byte{'\n'}, max(0, markSize-len(data)))...)
	if layout.Overwrite(path, data) == nil {
		return nil
	}
	return layout.Write(path, data, 0o600) // the first one
}

// noteKnows is where the journal keeps, for each program that worked with it, the newest
// format that this one knows.
const noteKnows = "knows."

// SetKnows keeps that a program knows the format of this one.
func (t *Tx) SetKnows(program string) error {
	return t.SetNote(noteKnows+program, strconv.FormatUint(uint64(Format.Now), 10))
}

// Knows reports whether a program may use this journal. One of which nothing is kept is
// from before there were numbers, and may use what those began with.
func (t *Tx) Knows(program string) bool {
	known, _ := strconv.ParseUint(t.Note(noteKnows+program), 10, 32)
	return max(known, 1) >= uint64(t.stamp().Floor)
}

// ErrOlder reports that the journal is an older one than the one that was last worked with.
var ErrOlder = errors.New("the journal is older than its mark")

// older returns ErrOlder when the journal is not the one that a mark is about, or has not
// come as far.
func (t *Tx) older(m mark) error {
	switch {
	case m.Journal == "":
		return nil
	case m.Journal != t.ID():
		return fmt.Errorf("%w: it is not the one that was last worked with", ErrOlder)
	case t.Count() < m.Count:
		return fmt.Errorf("%w: it has come to %d, and was at %d", ErrOlder, t.Count(), m.Count)
	}
	return nil
}

func isLocked(err error) bool { return errors.Is(err, berrors.ErrTimeout) }
