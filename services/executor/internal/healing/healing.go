// Package healing decides when an executor restores what something else than a task changed on its server. It is pure.
//
// Guarantees:
//
//  1. Only a document whose policy is to heal, and is not braked, lets anything be healed. A policy that is not known
//     heals nothing.
//  2. Damage is healed only after it lasted for a while, so that the registry can brake before a whole fleet is healed.
package healing

import (
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
)

// Allowed reports whether a document lets the executor heal.
func Allowed(d *desiredv1.Document) bool {
	switch d.GetDrift() {
	case environmentv1.DriftPolicy_DRIFT_POLICY_UNSPECIFIED, environmentv1.DriftPolicy_DRIFT_POLICY_HEAL:
		return !d.GetDriftBraked()
	}
	return false
}

// Damage remembers since when something is damaged. It is not safe for concurrent use.
type Damage struct {
	after time.Duration
	since map[string]time.Time
}

// NewDamage returns a memory of damage that is due after a while.
func NewDamage(after time.Duration) *Damage {
	return &Damage{after: after, since: map[string]time.Time{}}
}

// Note notes whether something is damaged now, and returns how long until its healing is due; 0 when it is due. began
// reports that the damage was noted for the first time. Healing is never due of what is not damaged.
func (d *Damage) Note(what string, damaged bool, now time.Time) (left time.Duration, began bool) {
	if !damaged {
		delete(d.since, what)
		return d.after, false
	}
	since, known := d.since[what]
	if !known {
		since = now
		d.since[what] = now
	}
	return max(0, d.after-now.Sub(since)), !known
}
