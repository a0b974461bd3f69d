// Package advisory reads advisories in the OSV format (https://ossf.github.io/osv-schema), and decides whether a
// component of an image is vulnerable.
//
// Guarantees:
//
//  1. Read names each record that it leaves out, with its field (BAD_ADVISORY), and reads the others.
//  2. Read takes at most MaxUnpacked bytes, MaxRecord bytes a record and MaxRecords records, also of an archive that
//     says otherwise of itself.
//  3. A verdict that rests on an order of versions that is not known is Maybe, and never Yes.
package advisory

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
)

// The bounds of what is read.
const (
	MaxUnpacked = 2 << 30 // bytes of a file, unpacked
	MaxRecord   = 8 << 20 // bytes of a record
	MaxRecords  = 200_000
)

// Export is what a file has.
type Export struct {
	Advisories []*catalogv1.Advisory
	Withdrawn  int      // records that were withdrawn, and are not kept
	Faults     []string // why a record cannot be read, a line each
	read       int      // how many records were read
	left       int64    // how many bytes may still be unpacked
}

// Read reads an export: one JSON document, a list of them, or a zip archive of JSON files.
func Read(file io.ReaderAt, size int64) (*Export, error) {
	e := &Export{left: MaxUnpacked}
	start := make([]byte, 4)
	if _, err := file.ReadAt(start, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var err error
	if bytes.HasPrefix(start, []byte("PK")) {
		err = e.archive(file, size)
	} else {
		err = e.document("", io.NewSectionReader(file, 0, size))
	}
	if err != nil {
		return nil, err
	}
	if len(e.Advisories) == 0 && e.Withdrawn == 0 {
		if len(e.Faults) > 0 {
			return nil, refuse("no record can be read; the first: %s", e.Faults[0])
		}
		return nil, refuse("it has no record")
	}
	return e, nil
}

func refuse(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.BadAdvisory, "the advisories cannot be used: "+format, args...).
		Try("an export in the OSV format: garrison advisory import --help")
}

// errTooLarge ends a file that unpacks to more than MaxUnpacked.
var errTooLarge = refuse("it unpacks to more than %d MiB", MaxUnpacked>>20)

// archive reads every JSON file of a zip archive.
func (e *Export) archive(file io.ReaderAt, size int64) error {
	z, err := zip.NewReader(file, size)
	if err != nil {
		return refuse("it is not a zip archive: %v", err)
	}
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, ".json") {
			continue
		}
		r, err := f.Open()
		if err == nil {
			err = errors.Join(e.document(f.Name+": ", r), r.Close())
		}
		switch {
		case errors.Is(err, errTooLarge), e.read > MaxRecords:
			return err
		case err != nil:
			e.fault(f.Name+": ", err)
		}
	}
	return nil
}

// bounded reads a file that is unpacked, until all have more than MaxUnpacked bytes, or one record is far longer than
// MaxRecord.
type bounded struct {
	from   io.Reader
	left   *int64
	record int64 // how many bytes the present record may still have
}

// errLongRecord ends a file with a record that is too long: it is not read into memory.
var errLongRecord = refuse("a record has more than %d MiB", 2*MaxRecord>>20)

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	*b.left -= int64(n)
	b.record -= int64(n)
	switch {
	case *b.left < 0:
		return n, errTooLarge
	case b.record < 0:
		return n, errLongRecord
	}
	return n, err
}

// document reads one record, or a list. A list that is no JSON is refused whole: nothing tells where its next record
// begins.
func (e *Export) document(at string, r io.Reader) error {
	within := &bounded{from: r, left: &e.left, record: 2 * MaxRecord}
	in := bufio.NewReader(within)
	first, err := firstByte(in)
	if errors.Is(err, errTooLarge) {
		return err
	}
	d := json.NewDecoder(in)
	switch {
	case err != nil, first != '[' && first != '{':
		return refuse("it is neither JSON nor a zip archive")
	case first == '{': // one, or one behind another
		for n := 0; n == 0 || d.More(); n++ {
			if err := e.record(at, d, within); err != nil {
				return err
			}
		}
		return nil
	}
	_, _ = d.Token() // the bracket
	for n := 0; d.More(); n++ {
		if err := e.record(fmt.Sprintf("%s[%d]: ", at, n), d, within); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return unreadable(err)
	}
	return nil
}

// firstByte returns the first byte that is not white space, and leaves it to be read.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		c, err := r.ReadByte()
		if err != nil || !strings.ContainsRune(" \t\r\n\uFEFF", rune(c)) && c != 0xEF && c != 0xBB && c != 0xBF {
			return c, errors.Join(err, unread(r, err))
		}
	}
}

func unread(r *bufio.Reader, err error) error {
	if err != nil {
		return nil
	}
	return r.UnreadByte()
}

func unreadable(err error) error {
	for _, known := range []error{errTooLarge, errLongRecord} {
		if errors.Is(err, known) {
			return known
		}
	}
	return refuse("it is not JSON: %v", err)
}

// record reads one record. Only a fault of the file as a whole is an error.
func (e *Export) record(at string, d *json.Decoder, within *bounded) error {
	var raw json.RawMessage
	within.record = 2 * MaxRecord // what was read ahead counts to the record before
	if err := d.Decode(&raw); err != nil {
		return unreadable(err)
	}
	if e.read++; e.read > MaxRecords {
		return refuse("it has more than %d records", MaxRecords)
	}
	if len(raw) > MaxRecord {
		e.fault(at, fmt.Errorf("it has %d bytes, want at most %d", len(raw), MaxRecord))
		return nil
	}
	a, withdrawn, err := recordOf(raw)
	switch {
	case err != nil:
		e.fault(at, err)
	case withdrawn:
		e.Withdrawn++
	default:
		e.Advisories = append(e.Advisories, a)
	}
	return nil
}

func (e *Export) fault(at string, err error) { e.Faults = append(e.Faults, at+err.Error()) }
