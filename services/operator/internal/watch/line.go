package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/noun/task"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
)

const (
	// sayEvery is the interval of progress lines without a terminal.
	sayEvery = 30 * time.Second
	// serversShown is the number of servers that each part of a line names.
	serversShown = 3
)

// sum returns the counts of all orders together.
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

// show updates the progress line: a bar, counts by state, one running step and the slow servers. Without a terminal it
// prints a line every sayEvery.
func (v *watcher) show(away error) {
	if v.quiet {
		return
	}
	every := v.env.SayEvery
	if every == 0 {
		every = sayEvery
	}
	due := !v.line.On && time.Since(v.said) >= every
	switch {
	case !v.line.On && !due:
	case away != nil && due:
		v.said = time.Now()
		v.env.Say("the service does not answer; retrying (%v)", away)
	case away != nil:
		v.line.Set("the service does not answer; retrying (%v)", away)
	case due:
		v.said = time.Now()
		v.env.Say("%s", strings.Join(v.parts(), "  "))
	default:
		c := v.sum()
		v.line.Set("%s %s", listing.Bar(uint64(display.Changes(c)-display.ToCome(c)), uint64(display.Changes(c))),
			strings.Join(v.parts(), "  "))
	}
}

// parts returns the parts of a progress line.
func (v *watcher) parts() []string {
	c := v.sum()
	done, all := display.Changes(c)-display.ToCome(c), display.Changes(c)
	parts := []string{fmt.Sprintf("%d/%d", done, all)}
	for _, t := range display.CountTexts(c) {
		parts = append(parts, t.Text)
	}
	parts = append(parts, v.step(), v.estimate(done, all-v.away()), v.deferred(), v.slow(), v.offline())
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}

// step returns the step of one running task.
func (v *watcher) step() string {
	for _, p := range v.progress {
		for _, t := range p.GetUnderWay() {
			if l := t.GetLive(); l.GetStep() != taskv1.Step_STEP_UNSPECIFIED {
				return v.name(t) + " " + display.LiveStep(l)
			}
		}
	}
	return ""
}

// away returns how many changes wait for servers that are offline.
func (v *watcher) away() (n int) {
	for _, p := range v.progress {
		n += int(p.GetOffline())
	}
	return n
}

// estimate returns the time left at the rate so far, for changes on servers that are online.
func (v *watcher) estimate(done, all int) string {
	left := v.pace.left(v.started, v.env.Now(), done, all)
	if left == 0 {
		return ""
	}
	return "about " + listing.Span(left) + " left"
}

// deferred names a server on which a change waits, and why, and counts the others among the named tasks.
func (v *watcher) deferred() string {
	text, more := "", 0
	for _, p := range v.progress {
		for _, t := range p.GetUnderWay() {
			switch {
			case !task.Waits(t):
			case text == "":
				text = "deferred: " + v.name(t) + " (" + t.GetReason() + ")"
			default:
				more++
			}
		}
	}
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// slow names the servers whose running step takes more than three times its usual duration.
func (v *watcher) slow() string {
	var names []string
	n := 0
	for _, p := range v.progress {
		n += int(p.GetSlow())
		for _, t := range p.GetUnderWay() {
			if t.GetLive().GetSlow() {
				names = append(names, v.name(t)+" ("+display.LiveText(v.env.Output.View(), t)+")")
			}
		}
	}
	return named("slow: ", names, n)
}

// offline names the servers whose changes wait because they are offline.
func (v *watcher) offline() string {
	var names []string
	for _, p := range v.progress {
		for _, t := range p.GetOfflineTasks() {
			names = append(names, v.name(t)+" (for "+listing.Age(v.env.Output.View(), t.GetServerOfflineSince())+")")
		}
	}
	return named("offline: ", names, v.away())
}

// named returns the first of n names behind a title; empty without any.
func named(title string, names []string, n int) string {
	if len(names) == 0 {
		return ""
	}
	shown := names[:min(serversShown, len(names))]
	text := title + strings.Join(shown, ", ")
	if more := n - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// pace is when changes ended, for an estimate of the time left.
type pace struct {
	done  int
	at    time.Time     // when the last one ended
	after time.Duration // the time left then
}

// left returns the time left at the rate of what ended since began. While nothing ends it shrinks. It is zero, which
// means unknown, once it is used up: what takes longer than the others says nothing about when it ends.
func (p *pace) left(began, now time.Time, done, all int) time.Duration {
	took := now.Sub(began)
	if done == 0 || done >= all || took < 2*time.Second {
		return 0
	}
	if done != p.done {
		*p = pace{done, now, took * time.Duration(all-done) / time.Duration(done)}
	}
	return max(0, p.after-now.Sub(p.at))
}
