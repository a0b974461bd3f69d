// Package format numbers the files that Garrison keeps on disk, so that a program never
// guesses at a file that a newer program wrote.
//
// Each file carries two numbers. Its format is the layout that the writer used. Its floor
// is the oldest format whose readers may still use the file: a writer raises it when an
// older reader would lose or misread something.
//
// Guarantees:
//
//  1. Check refuses a file whose floor is above the format that this program knows, and
//     one whose format is older than this program still reads.
//  2. A refusal names the file, both numbers and the program's version, and is of kind
//     Invalid. Callers check before they write anything.
package format

import (
	"encoding/json"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// Spec describes one kind of file.
type Spec struct {
	Kind   string // what the file is, for people: "journal"
	Now    uint32 // the format that this program writes
	Floor  uint32 // the oldest format whose readers may use what this program writes
	Oldest uint32 // the oldest format that this program reads; 0 admits files without a number
}

// Stamp is the pair of numbers as JSON files carry it.
type Stamp struct {
	Format uint32 `json:"format,omitempty"`
	Floor  uint32 `json:"format_floor,omitempty"`
}

// Stamp returns the numbers of a file that this program writes.
func (s Spec) Stamp() Stamp { return Stamp{Format: s.Now, Floor: s.Floor} }

// ReadJSON reads a JSON file's text into what it holds, which has a Stamp among its
// fields. The numbers are checked before anything else is understood.
func (s Spec) ReadJSON(path string, text []byte, into any) error {
	var have Stamp
	if err := json.Unmarshal(text, &have); err != nil {
		return err
	}
	if err := s.Check(path, have); err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Check reports why this program must not use the file at path, or nil. A file from before
// there were numbers has the zero Stamp.
func (s Spec) Check(path string, have Stamp) error {
	switch {
	case max(have.Floor, 1) > s.Now:
		return fault.Refusef(fault.Invalid, code.FormatTooNew,
			"%s %s has format %d, which needs a program that knows format %d; "+
				"this one is version %s and knows formats %d to %d",
			s.Kind, path, have.Format, have.Floor, version.Version, s.Oldest, s.Now)
	case have.Format < s.Oldest:
		return fault.Refusef(fault.Invalid, code.FormatTooOld,
			"%s %s has format %d; this program is version %s and knows formats %d to %d",
			s.Kind, path, have.Format, version.Version, s.Oldest, s.Now)
	}
	return nil
}
