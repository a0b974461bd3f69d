package rollout

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// ended notes how one change ended. A server that counts as broken because it was silent succeeds after all when it
// returns with every change done.
func ended(t *rolloutv1.Target, e Event) rolloutv1.TargetState {
	if t.State != reached && !wasSilent(t) {
		return t.State
	}
	if !e.OK {
		return broken
	}
	for len(t.Done) < max(len(t.Changes), 1) {
		t.Done, t.Awaited = append(t.Done, false), append(t.Awaited, 0)
	}
	if e.Change < len(t.Done) && !t.Done[e.Change] {
		t.Done[e.Change], t.Awaited[e.Change] = true, e.Generation
	}
	if halfway(t) {
		return leftOut
	}
	return finished(t, e)
}

// seen notes what was observed of an agent whose change is done. An observation of an older generation does not count:
// it is of what was there before.
func seen(t *rolloutv1.Target, e Event) rolloutv1.TargetState {
	late := e.Change >= len(t.Awaited) || t.Awaited[e.Change] == 0 || t.Awaited[e.Change] > e.Generation
	if late || !in(t.State, reached, leftOut) && !wasSilent(t) {
		return t.State
	}
	t.Awaited[e.Change] = 0
	switch {
	case !e.OK && !slices.Contains(t.UnhealthyBefore, e.Agent):
		return broken
	case t.State == leftOut:
		return leftOut
	}
	return finished(t, e)
}

// finished returns the state of a target with a finished change: it succeeds once every change is done and observed.
func finished(t *rolloutv1.Target, e Event) rolloutv1.TargetState {
	switch {
	case !ending(t):
		return t.State
	case awaits(t):
		if t.UnseenSince == nil {
			t.UnseenSince = timestamppb.New(e.At)
		}
		return t.State
	}
	if t.UnseenSince = nil; slices.Contains(t.Done, false) { // the next step is due
		return t.State
	}
	return succeeded
}

// awaits reports whether an observation of a change is awaited.
func awaits(t *rolloutv1.Target) bool {
	return slices.ContainsFunc(t.Awaited, func(generation uint64) bool { return generation > 0 })
}

// wasSilent reports whether a target is broken only because its server was silent.
func wasSilent(t *rolloutv1.Target) bool {
	return t.State == broken && t.Reason.GetCode() == code.SilentSinceReached
}

// SilentSince returns since when a target is silent: its server is offline, or what its changes led to was not
// observed. It returns nil for one that is not.
func SilentSince(t *rolloutv1.Target) *timestamppb.Timestamp {
	offline, unseen := t.GetSilentSince(), t.GetUnseenSince()
	if offline == nil || unseen != nil && unseen.AsTime().Before(offline.AsTime()) {
		return unseen
	}
	return offline
}
