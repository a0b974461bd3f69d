package watch

import (
	"fmt"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ident"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
)

// serversNamed is the number of servers that a group of equal failures names.
const serversNamed = 3

// group is failures with one reason.
type group struct {
	reason  string
	servers []string // the names of the first ones
	count   int
}

// groupsOf returns the failed tasks by reason, in the order of their first one.
func groupsOf(tasks []display.Task, name func(display.Task) string) []*group {
	var out []*group
	byReason := map[string]*group{}
	for _, t := range tasks {
		reason := listing.Cell(display.TaskReason(t))
		if !failed(t) || reason == "-" {
			continue
		}
		g := byReason[reason]
		if g == nil {
			g = &group{reason: reason}
			byReason[reason], out = g, append(out, g)
		}
		if g.count++; len(g.servers) < serversNamed {
			g.servers = append(g.servers, name(t))
		}
	}
	return out
}

// String implements fmt.Stringer.
func (g *group) String() string {
	servers := strings.Join(g.servers, ", ")
	if more := g.count - len(g.servers); more > 0 {
		servers += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%d × %s (%s)", g.count, g.reason, servers)
}

// sayGroups prints each reason that several changes failed with, once.
func (v *watcher) sayGroups(tasks []display.Task) {
	for _, g := range groupsOf(tasks, v.name) {
		if g.count > 1 {
			v.env.Say("%s", g)
		}
	}
}

func (v *watcher) name(t display.Task) string {
	return listing.View{Names: v.names}.Server(t.GetServerId())
}

func (v *watcher) endText(t display.Task) string {
	text := v.name(t) + ": " + display.VerbText(t)
	if t.GetAgent() != "" {
		text += " " + t.GetAgent()
	}
	if versions := versionsText(t); versions != "" {
		text += " " + versions
	}
	text += ": " + listing.Word(t.GetState())
	if d := t.GetSince().AsTime().Sub(t.GetQueuedAt().AsTime()); t.GetQueuedAt() != nil && d > 0 {
		text += " after " + d.Round(10*time.Millisecond).String()
	}
	if reason := display.TaskReason(t); reason != "" {
		text += ": " + listing.Cell(reason)
	}
	if s := t.GetState(); s == taskv1.State_STATE_FAILED || s == taskv1.State_STATE_UNDONE {
		text += " (garrison task show " + ident.Short(t.GetId()) + ")"
	}
	return text
}

// versionsText returns the old and the new version of a task, or one version when it stays.
func versionsText(t display.Task) string {
	from, to := t.GetFrom().GetVersion(), t.GetTo().GetVersion()
	switch {
	case from != "" && to != "" && from != to:
		return from + " → " + to
	case from != "" && to != "" && t.GetVerb() == taskv1.Verb_VERB_UPGRADE:
		return to + " again"
	}
	return to
}
