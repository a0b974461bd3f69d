package view

import (
	"iter"

	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
)

// Hold returns a hold by id; its time may have passed.
func (v *records) Hold(id string) (*holdv1.Hold, bool) { return v.holds.Get(id) }

// Holds returns the holds that sort after an id, by id; the time of some may have passed.
func (v *records) Holds(after string) iter.Seq2[string, *holdv1.Hold] { return sorted(v.holds, after) }

// HoldCount returns how many holds there are.
func (v *records) HoldCount() int { return v.holds.Len() }
