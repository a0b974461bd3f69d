package rollout

import (
	"cmp"
	"fmt"
	"strings"

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
