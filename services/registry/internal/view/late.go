package view

import (
	"slices"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// A server that missed a beat is recorded as online, and is listed as late. Which ones are late is known to one process
// and not in the ledger, so the indexes do not have it: counts move these servers from one group to the other.

// addLate moves the servers of a count that are late to the groups in which they are listed.
func (v *counting) addLate(t *tally, q ServerFilter) {
	if len(q.Late) == 0 || !slices.Contains(t.by, byPresence) {
		return
	}
	for _, s := range v.serversOf(append(v.serverTerms(q), v.amongTerm(q.Late)), "") {
		t.moveToLate(func(field string) string { return serverValue(s, field) })
	}
}

// addLateInstances does so for the instances on late servers.
func (v *counting) addLateInstances(t *tally, q InstanceFilter) {
	if len(q.Late) == 0 || !slices.Contains(t.by, byPresence) {
		return
	}
	q.onLate = true
	for f := range v.found(q, "") {
		t.moveToLate(func(field string) string { return v.instanceValue(f.instance, f.server, field) })
	}
}

// moveToLate moves a row whose values are the results of value from those of its presence to those of late servers.
func (t *tally) moveToLate(value func(field string) string) {
	t.add(1, func(field string) string {
		if field == byPresence {
			return presenceWord(serverv1.Presence_PRESENCE_LATE)
		}
		return value(field)
	})
	t.remove(value)
}
