package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/selection"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// theRest is the word for the last wave, which has what no stage takes.
const theRest = "rest"

// waveStages are the values of --waves.
type waveStages struct {
	list []*rolloutv1.Stage
	rest bool // the last wave was named
}

// read adds the stages of one value, such as "10,25%" or "env=test; 25% of rack=a; rest".
func (s *waveStages) read(text string) error {
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if s.rest {
			return fmt.Errorf("%q: nothing comes after rest, which is the last wave", text)
		}
		if s.rest = part == theRest; s.rest {
			continue
		}
		more, err := readStages(part)
		if err != nil {
			return err
		}
		s.list = append(s.list, more...)
	}
	return nil
}

// readStages reads sizes, conditions, or a size of the servers that meet conditions.
func readStages(part string) ([]*rolloutv1.Stage, error) {
	size, conditions, both := strings.Cut(part, " of ")
	if !both {
		first, _, _ := strings.Cut(part, ",")
		if _, err := cli.ReadLimit(strings.TrimSpace(first)); err == nil {
			return readSizes(part)
		}
		group, err := readGroup(part)
		return []*rolloutv1.Stage{{Of: group}}, err
	}
	sized, err := readSizes(size)
	if err != nil {
		return nil, err
	}
	if len(sized) > 1 {
		return nil, fmt.Errorf("%q: one size is of conditions; separate waves by a semicolon", part)
	}
	sized[0].Of, err = readGroup(conditions)
	return sized, err
}

// readSizes reads numbers of servers and percentages, with commas between them.
func readSizes(part string) (out []*rolloutv1.Stage, err error) {
	for word := range strings.SplitSeq(part, ",") {
		l, err := cli.ReadLimit(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("%w; conditions follow a semicolon, as in '10%%; env=test'", err)
		}
		if l.GetServers()+l.GetPercent() == 0 {
			return nil, fmt.Errorf("%q: a wave has at least one server", part)
		}
		stage := &rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{Servers: l.GetServers()}}
		if _, ok := l.By.(*rolloutv1.Limit_Percent); ok {
			stage.Size = &rolloutv1.Stage_Percent{Percent: l.GetPercent()}
		}
		out = append(out, stage)
	}
	return out, nil
}

// readGroup reads conditions, which are written as in --on.
func readGroup(text string) (*rolloutv1.Group, error) {
	if !strings.ContainsAny(text, "=<>(") {
		return nil, fmt.Errorf("%q is not a number of servers, a percentage such as 10%%, conditions such as "+
			"env=test or 'rack in (a,b)', or rest", text)
	}
	on, err := selection.Parse([]string{text})
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "--on ") // the name of the flag comes before it
		return nil, cli.Usage("%s", strings.ReplaceAll(text, "--on", "--waves"))
	}
	if len(on.GetServers()) > 0 || on.GetAll() {
		return nil, cli.Usage("%q is not a condition. Try: name=%s", text, text)
	}
	g := &rolloutv1.Group{}
	add := func(field string, relation rolloutv1.Relation, values ...string) {
		g.Where = append(g.Where, &rolloutv1.Match{Field: field, Relation: relation, Values: values})
	}
	if on.GetEnvironment() != "" {
		add("env", rolloutv1.Relation_RELATION_IN, on.GetEnvironment())
	}
	for _, label := range slices.Sorted(maps.Keys(on.GetLabels())) {
		add("label."+label, rolloutv1.Relation_RELATION_IN, on.GetLabels()[label])
	}
	for _, c := range on.GetWhere() {
		add(c.GetField(), relationOf(c.GetOperator()), c.GetValues()...)
	}
	return g, nil
}

// relationOf returns the relation that an operator of a selector is in a stage.
func relationOf(o intentv1.Operator) rolloutv1.Relation { return rolloutv1.Relation(o) }

// groupLine describes the waves of a plan whose stages have conditions, in one line; "" for any other.
func groupLine(p *registryv1.PlanRolloutResponse) string {
	named := p.GetStrategy().GetStages()
	if !slices.ContainsFunc(named, func(s *rolloutv1.Stage) bool { return s.GetOf() != nil }) {
		return ""
	}
	var parts []string
	for n, servers := range p.GetWaves() {
		text := "the rest, which no stage takes"
		if n < len(named) {
			text = rollout.StageText(named[n])
		}
		parts = append(parts, fmt.Sprintf("%d: %s (%s)", n+1, text, listing.Plural(int(servers), "server")))
	}
	return "waves " + strings.Join(parts, "; ")
}
