package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

const (
	// sayEvery is how often a line of progress is printed without a terminal.
	sayEvery = 30 * time.Second
	// slowNamed is how many slow servers a line names.
	slowNamed = 3
)

// progress is how far an intent is.
type progress = *dispatcherv1.GetIntentProgressResponse

// askProgress asks the dispatcher how far an intent is.
func (s *session) askProgress(ctx context.Context, id string, rows uint32) (progress, error) {
	return call[progress](ctx, s, "GetIntentProgress", &dispatcherv1.GetIntentProgressRequest{IntentId: id, Rows: rows})
}

// countText is one counter of an intent, for people.
type countText struct {
	n     uint32
	text  string
	ended bool // of what ended and did not succeed
}

// countTexts returns the counters that are not 0, but for those that succeeded.
func countTexts(c *dispatcherv1.IntentCounts) []countText {
	all := []countText{
		{c.GetToOpen(), "to open", false}, {c.GetQueued(), "queued", false}, {c.GetAssigned(), "assigned", false},
		{c.GetRunning(), "running", false}, {c.GetFailed(), "failed", true}, {c.GetUndone(), "undone", true},
		{c.GetCancelled(), "cancelled", true}, {c.GetExpired(), "expired", true}, {c.GetSuperseded(), "superseded", true},
		{c.GetNeverOpened(), "never began", true},
	}
	all = slices.DeleteFunc(all, func(t countText) bool { return t.n == 0 })
	for i := range all {
		all[i].text = fmt.Sprintf("%d %s", all[i].n, all[i].text)
	}
	return all
}

func toCome(c *dispatcherv1.IntentCounts) int {
	return int(c.GetToOpen() + c.GetQueued() + c.GetAssigned() + c.GetRunning())
}

// failed counts the changes that ended and did not succeed.
func failed(c *dispatcherv1.IntentCounts) int {
	return int(c.GetUndone() + c.GetFailed() + c.GetCancelled() + c.GetExpired() + c.GetSuperseded() + c.GetNeverOpened())
}

func neverBegan(c *dispatcherv1.IntentCounts) int { return int(c.GetNeverOpened()) }

func changes(c *dispatcherv1.IntentCounts) int { return toCome(c) + failed(c) + int(c.GetSucceeded()) }

// sum adds up the counts of all orders.
func (v *watcher) sum() *dispatcherv1.IntentCounts {
	sum := &dispatcherv1.IntentCounts{}
	for _, p := range v.progress {
		c := p.GetCounts()
		sum.ToOpen += c.GetToOpen()
		sum.Queued += c.GetQueued()
		sum.Assigned += c.GetAssigned()
		sum.Running += c.GetRunning()
		sum.Succeeded += c.GetSucceeded()
		sum.Undone += c.GetUndone()
		sum.Failed += c.GetFailed()
		sum.Cancelled += c.GetCancelled()
		sum.Expired += c.GetExpired()
		sum.Superseded += c.GetSuperseded()
		sum.NeverOpened += c.GetNeverOpened()
	}
	return sum
}

// show moves the line: a bar, counts by state, one step that is under way, and what is slow. Without a terminal it
// prints a line now and then.
func (v *watcher) show(away error) {
	every := v.s.sayEvery
	if every == 0 {
		every = sayEvery
	}
	due := !v.line.on && time.Since(v.said) >= every
	switch {
	case !v.line.on && !due:
	case away != nil && due:
		v.said = time.Now()
		v.s.say("the service does not answer; trying again (%v)", away)
	case away != nil:
		v.line.set("the service does not answer; trying again (%v)", away)
	case due:
		v.said = time.Now()
		v.s.say("%s", strings.Join(v.parts(), "  "))
	default:
		c := v.sum()
		v.line.set("%s %s", bar(uint64(changes(c)-toCome(c)), uint64(changes(c))), strings.Join(v.parts(), "  "))
	}
}

// parts returns what a line of progress holds.
func (v *watcher) parts() []string {
	c := v.sum()
	done, all := changes(c)-toCome(c), changes(c)
	parts := []string{fmt.Sprintf("%d/%d", done, all)}
	for _, t := range countTexts(c) {
		parts = append(parts, t.text)
	}
	parts = append(parts, v.step(), v.estimate(done, all), v.slow())
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}

// step names the step of one task that is under way.
func (v *watcher) step() string {
	for _, p := range v.progress {
		for _, t := range p.GetUnderWay() {
			if l := t.GetLive(); l.GetStep() != taskv1.Step_STEP_UNSPECIFIED {
				return v.name(t) + " " + liveStep(l)
			}
		}
	}
	return ""
}

// liveStep names a step, with its share when it has a size.
func liveStep(l *taskv1.Live) string {
	text := word(l.GetStep())
	if l.GetTotalBytes() > 0 {
		text += fmt.Sprintf(" %d%%", 100*l.GetDoneBytes()/l.GetTotalBytes())
	}
	return text
}

// liveText returns the step of a task, for how long it is at it, and what is usual when it is slow.
func liveText(v view, t task) string {
	l := t.GetLive()
	if l == nil {
		return ""
	}
	text := liveStep(l)
	if text == "" {
		text = "began"
	}
	text += " for " + span(v.at.Sub(l.GetSince().AsTime()))
	if l.GetSlow() {
		text += ", slow (usually " + usualText(l.GetUsual().AsDuration()) + ")"
	}
	return text
}

// usualText writes a median; what takes less than a second is not rounded away.
func usualText(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return span(d)
}

// estimate returns when it ends at the rate so far.
func (v *watcher) estimate(done, all int) string {
	took := v.s.now().Sub(v.started)
	if done == 0 || done >= all || took < 2*time.Second {
		return ""
	}
	return "about " + span(took*time.Duration(all-done)/time.Duration(done)) + " left"
}

// slow names the servers that are at a step for more than three times of what it usually takes.
func (v *watcher) slow() string {
	var names []string
	more := 0
	for _, p := range v.progress {
		more += int(p.GetSlow())
		for _, t := range p.GetUnderWay() {
			if t.GetLive().GetSlow() && len(names) < slowNamed {
				names = append(names, v.name(t)+" ("+liveText(v.s.view(), t)+")")
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	text := "slow: " + strings.Join(names, ", ")
	if more > len(names) {
		text += fmt.Sprintf(" and %d more", more-len(names))
	}
	return text
}
