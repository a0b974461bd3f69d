package view

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/hold"
)

// A hold of every agent pauses the site: no task is assigned but those that only ask for a report and those of servers
// that go. What is queued waits, and its deadline does not count until an hour after the end of the pause.

// afterPause is how long tasks whose deadline passed in a pause of the site have to be assigned after it.
const afterPause = time.Hour

var pauseKey = hold.ID("", hold.Site())

// Site is the pause of the whole site.
type Site struct {
	pauses *fold.Table[*holdv1.Hold] // the one that was set last; it stays once it ended
	now    time.Time                 // of the last fact
}

// apply keeps the pause of the site that was set last. Holds of single agents concern the registry alone.
func (s *Site) apply(f ledger.Fact) bool {
	if f.Key != pauseKey {
		return true
	}
	have, _ := s.pauses.Get(f.Key)
	next, fit := hold.Apply(have, f)
	switch {
	case !fit:
		return false
	case next != nil:
		have = next
	case f.At.Before(have.Until.AsTime()):
		have.Until = timestamppb.New(f.At)
	}
	s.pauses.Put(f.Key, have, f.Sequence)
	return true
}

// PausedUntil returns when the pause of the site ends that is in effect at a time; zero when none is.
func (s *Site) PausedUntil(at time.Time) time.Time {
	p, ok := s.pauses.Get(pauseKey)
	if !ok || !at.Before(p.Until.AsTime()) {
		return time.Time{}
	}
	return p.Until.AsTime()
}

// spares reports whether no deadline of a queued task counts at a time.
func (s *Site) spares(at time.Time) bool {
	p, ok := s.pauses.Get(pauseKey)
	return ok && at.Before(p.Until.AsTime().Add(afterPause))
}

// holdsBack reports whether a task is not assigned in a pause of the site.
func holdsBack(t *taskv1.Task, server *dispatcherv1.ServerRecord) bool {
	return (disturbs(t) || t.PurgeKept || t.Ahead != nil) && server.GetLife() != serverv1.Life_LIFE_DYING
}

// text returns why a pause holds a task back, as of the last fact, or "".
func (s *Site) text(t *taskv1.Task, server *dispatcherv1.ServerRecord) string {
	until := s.PausedUntil(s.now)
	if s.now.IsZero() || until.IsZero() || !holdsBack(t, server) {
		return ""
	}
	p, _ := s.pauses.Get(pauseKey)
	return "waits: " + p.SetBy + " paused the site until " + until.UTC().Format(time.RFC3339) + ": " + p.Reason
}
