package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// symbols are the relations of one value in text form.
var symbols = map[rolloutv1.Relation]string{
	rolloutv1.Relation_RELATION_IN: "=", rolloutv1.Relation_RELATION_NOT_IN: "!=",
	rolloutv1.Relation_RELATION_LESS: "<", rolloutv1.Relation_RELATION_AT_MOST: "<=",
	rolloutv1.Relation_RELATION_MORE: ">", rolloutv1.Relation_RELATION_AT_LEAST: ">=",
}

// StageText returns which servers a stage takes, as it is asked for: "25%", "env=test,rack in (a,b)", "2 of env=prod".
func StageText(s *rolloutv1.Stage) string {
	group := GroupText(s.GetOf())
	text := ""
	switch size := s.GetSize().(type) {
	case *rolloutv1.Stage_Canaries:
		text = fmt.Sprintf("%d canaries", size.Canaries)
	case *rolloutv1.Stage_Servers:
		text = fmt.Sprint(size.Servers)
	case *rolloutv1.Stage_Percent:
		text = fmt.Sprintf("%d%%", size.Percent)
	default:
		return group
	}
	if group != "" {
		text += " of " + group
	}
	return text
}

// GroupText returns the conditions of a group, as they are asked for.
func GroupText(g *rolloutv1.Group) string {
	var words []string
	for _, m := range g.GetWhere() {
		words = append(words, matchText(m))
	}
	return strings.Join(words, ",")
}

func matchText(m *rolloutv1.Match) string {
	field := strings.TrimPrefix(m.GetField(), "label.")
	if len(m.GetValues()) == 1 {
		return field + cmp.Or(symbols[m.GetRelation()], " ? ") + m.Values[0]
	}
	word := " in ("
	if m.GetRelation() == rolloutv1.Relation_RELATION_NOT_IN {
		word = " not in ("
	}
	return field + word + strings.Join(m.GetValues(), ",") + ")"
}

// Ended reports whether a state is an end. A rollout that ended may still be undone.
func Ended(s rolloutv1.State) bool {
	return s == rolloutv1.State_STATE_SUCCEEDED || s == rolloutv1.State_STATE_ABORTED ||
		s == rolloutv1.State_STATE_UNDONE
}

// Open reports whether a target in a state may still be changed.
func Open(s rolloutv1.TargetState) bool {
	switch s {
	case rolloutv1.TargetState_TARGET_STATE_PENDING, rolloutv1.TargetState_TARGET_STATE_REACHED,
		rolloutv1.TargetState_TARGET_STATE_OWED:
		return true
	}
	return false
}

// Named returns the servers that an intent names which a rollout released.
func Named(i *intentv1.Intent) []string {
	switch ask := i.GetAsk().(type) {
	case *intentv1.Intent_Install:
		return ask.Install.GetOn().GetServers()
	case *intentv1.Intent_Upgrade:
		return ask.Upgrade.GetOn().GetServers()
	case *intentv1.Intent_Configure:
		return ask.Configure.GetOn().GetServers()
	case *intentv1.Intent_Remove:
		return ask.Remove.GetOn().GetServers()
	case *intentv1.Intent_Undo:
		return ask.Undo.GetOn().GetServers()
	}
	return nil
}

// ChangeOf returns which change of a target an intent makes; -1 for none of them.
func ChangeOf(t *rolloutv1.Target, i *intentv1.Intent) int {
	agent, image := "", ""
	switch ask := i.GetAsk().(type) {
	case *intentv1.Intent_Install:
		agent, image = ask.Install.GetAgent(), ask.Install.GetImage().GetImageId()
	case *intentv1.Intent_Upgrade:
		agent, image = ask.Upgrade.GetAgent(), ask.Upgrade.GetImage().GetImageId()
	case *intentv1.Intent_Configure:
		agent = ask.Configure.GetAgent()
	case *intentv1.Intent_Remove:
		agent = ask.Remove.GetAgent()
	case *intentv1.Intent_Undo:
		return slices.Index(t.UndoIntentIds, ask.Undo.GetIntentId())
	}
	// An agent that goes by way of other versions has several changes.
	if n := slices.IndexFunc(t.Changes, func(c *rolloutv1.Change) bool {
		return c.Agent == agent && c.To.GetId() == image
	}); n >= 0 {
		return n
	}
	return slices.IndexFunc(t.Changes, func(c *rolloutv1.Change) bool { return c.Agent == agent })
}

// Common returns an agent that both targets change, or "".
func Common(a, b *rolloutv1.Target) string {
	for _, x := range a.GetChanges() {
		for _, y := range b.GetChanges() {
			if x.Agent == y.Agent {
				return x.Agent
			}
		}
	}
	return ""
}
