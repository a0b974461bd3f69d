package watch

import (
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
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
		reason := output.Cell(display.TaskReason(t))
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
