package rollout

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/keep"
)

// budgets is what the keep budgets still allow within one decision: those of the rollout's strategy, and those of the
// environments of its servers.
type budgets struct {
	in    Input
	spare map[keep.Group]int // how many servers may be taken away
	held  int
	why   string
	stuck bool // a budget needs every server of the group of one that is held back
}

// take reports whether a server may be changed now, and takes it out of every budget if so.
func (b *budgets) take(server string) bool {
	of := b.of(server)
	if len(of) == 0 || b.in.Works != nil && !b.in.Works(server) {
		return true
	}
	if b.spare == nil {
		b.spare = map[keep.Group]int{}
	}
	for _, s := range of {
		spare, known := b.spare[s.Group]
		if !known {
			spare = s.Count.Working - keep.Needed(s.Keep, s.Count.All)
			b.spare[s.Group] = spare
		}
		if spare <= 0 {
			b.hold(s)
			return false
		}
	}
	for _, s := range of {
		b.spare[s.Group]--
	}
	return true
}

func (b *budgets) hold(s Standing) {
	group := fmt.Sprintf("%s %s", s.Group.Field, orNone(s.Group.Value))
	if s.Group.Environment != "" {
		group += ", for environment " + s.Group.Environment
	}
	b.held++
	needed := keep.Needed(s.Keep, s.Count.All)
	switch {
	case keep.NeedsAll(needed, s.Count.All):
		b.stuck = true
		b.why = fmt.Sprintf("a smaller keep budget than %d of %d servers with %s", needed, s.Count.All, group)
	case !b.stuck:
		b.why = "more working servers with " + group
	}
}

// note makes a decision wait for working servers.
func (b *budgets) note(d *Decision) {
	if b.held > 0 {
		d.Immovable = d.Immovable || b.stuck
		d.waitFor(fmt.Sprintf("%s: %s held back", b.why, some(b.held)))
	}
}

// of returns the budgets that hold for a server.
func (b *budgets) of(server string) (out []Standing) {
	for _, k := range b.in.Rollout.Strategy.GetKeep() {
		g := keep.Group{Field: k.Field, Value: b.in.Field(server, k.Field)}
		s := Standing{Keep: k, Group: g}
		if _, known := b.spare[g]; !known {
			s.Count.Working, s.Count.All = b.in.Working(k.Field, g.Value)
		}
		out = append(out, s)
	}
	if b.in.Standing != nil {
		out = append(out, b.in.Standing(server)...)
	}
	return out
}
