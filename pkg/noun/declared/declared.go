// Package declared is the life that application, environment and agent have in common: an operator
// creates, changes and deletes a whole record.
//
// Guarantee: a record is created once and changed or deleted only while it exists.
package declared

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
)

// State is whether the record exists.
type State string

// The states.
const (
	Absent  State = "absent"
	Present State = "present"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = fsm.Table[State, string]{
	Absent:  {"created": Present},
	Present: {"changed": Present, "deleted": Absent},
}

// Next returns whether the record exists after a fact, and whether the fact fits.
func Next(exists bool, fact string) (existsAfter, fit bool) {
	have := Absent
	if exists {
		have = Present
	}
	next, fit := Life.Next(have, fact)
	return next == Present, fit
}

// CreatedAt returns when a record was created: as before, or now when there was none.
func CreatedAt(before *timestamppb.Timestamp, now time.Time) *timestamppb.Timestamp {
	if before != nil {
		return before
	}
	return timestamppb.New(now)
}
