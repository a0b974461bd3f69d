package display

import (
	"fmt"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/listing"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// ProgressText sums up the progress of an intent.
func ProgressText(c *dispatcherv1.IntentCounts) string {
	text := fmt.Sprintf("%d succeeded", c.GetSucceeded())
	for _, t := range CountTexts(c) {
		text += ", " + t.Text
	}
	if ToCome(c) == 0 {
		text += "; finished"
	}
	return text
}

// Progress is the progress of an intent.
type Progress = *dispatcherv1.IntentProgress

// countText is one counter of an intent as text.
type countText struct {
	n     uint32
	Text  string
	Ended bool // counts changes that ended without success
}

// CountTexts returns the counters above 0, except the one of succeeded changes.
func CountTexts(c *dispatcherv1.IntentCounts) []countText {
	all := []countText{
		{c.GetToOpen(), "to open", false}, {c.GetQueued(), "queued", false}, {c.GetAssigned(), "assigned", false},
		{c.GetRunning(), "running", false}, {c.GetFailed(), "failed", true}, {c.GetUndone(), "undone", true},
		{
			c.GetCancelled(),
			"cancelled",
			true,
		}, {c.GetExpired(), "expired", true}, {c.GetSuperseded(), "superseded", true},
		{c.GetNeverOpened(), "not started", true},
	}
	all = slices.DeleteFunc(all, func(t countText) bool { return t.n == 0 })
	for i := range all {
		all[i].Text = fmt.Sprintf("%d %s", all[i].n, all[i].Text)
	}
	return all
}

// ToCome returns the number of changes that have not ended.
func ToCome(c *dispatcherv1.IntentCounts) int {
	return int(c.GetToOpen() + c.GetQueued() + c.GetAssigned() + c.GetRunning())
}

// Failed returns the number of changes that ended without success.
func Failed(c *dispatcherv1.IntentCounts) int {
	return int(
		c.GetUndone() + c.GetFailed() + c.GetCancelled() + c.GetExpired() + c.GetSuperseded() + c.GetNeverOpened())
}

// NeverBegan returns the number of changes that ended before they began.
func NeverBegan(c *dispatcherv1.IntentCounts) int { return int(c.GetNeverOpened()) }

// Changes returns the number of all changes of an intent.
func Changes(c *dispatcherv1.IntentCounts) int { return ToCome(c) + Failed(c) + int(c.GetSucceeded()) }

// LiveStep returns the name of a running step, with a percentage when its size is known.
func LiveStep(l *taskv1.Live) string {
	text := listing.Word(l.GetStep())
	if l.GetTotalBytes() > 0 {
		text += fmt.Sprintf(" %d%%", 100*l.GetDoneBytes()/l.GetTotalBytes())
	}
	return text
}

// LiveText returns the running step of a task and its duration; for a slow step also the usual duration. A task is
// assigned until its server reports that it started.
func LiveText(v listing.View, t Task) string {
	l := t.GetLive()
	if l == nil {
		return ""
	}
	text, since := LiveStep(l), l.GetSince()
	switch {
	case text != "":
	case t.GetState() == taskv1.State_STATE_ASSIGNED:
		text = "not started"
	default:
		text, since = "started", t.GetSince()
	}
	text += " for " + listing.Span(v.At.Sub(since.AsTime()))
	if l.GetSlow() {
		text += ", slow (usually " + usualText(l.GetUsual().AsDuration()) + ")"
	}
	return text
}

// usualText formats a median duration; below a second it keeps milliseconds.
func usualText(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return listing.Span(d)
}

// PlanTarget is one server of a plan.
type PlanTarget = *intentv1.Target

// Plan lists the servers of a plan, as the registry computed it.
var Plan = listing.Listing[PlanTarget]{
	Tells: true,
	Name:  func(t PlanTarget) string { return t.GetServerName() + "/" + t.GetAgent() },
	Columns: []listing.Column[PlanTarget]{
		listing.Col("SERVER", PlanTarget.GetServerName),
		listing.Col("AGENT", PlanTarget.GetAgent),
		listing.Col("FROM", func(t PlanTarget) string { return t.GetFrom().GetVersion() }),
		listing.Col("TO", func(t PlanTarget) string { return t.GetTo().GetVersion() }),
		{Title: "DIGEST", Wide: true, Value: func(v listing.View, t PlanTarget) string {
			return listing.DigestText(v, t.GetTo().GetDigest())
		}},
		listing.Col("WHAT", MoveText),
		listing.Col("OWN", func(t PlanTarget) string { return listing.Pairs(t.GetOwn()) }).IfSet(),
		listing.Col("REASON", func(t PlanTarget) string { return Reason(t.GetReason()) }),
		listing.Wide("IMAGE", func(t PlanTarget) string { return t.GetTo().GetId() }),
	},
}

// MoveText returns the kind of a server's change, or why it does not change.
func MoveText(t PlanTarget) string {
	if t.GetEffect() == intentv1.Effect_EFFECT_CHANGE {
		return listing.Word(t.GetMove())
	}
	return listing.Word(t.GetEffect())
}
