package intent

import (
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/secret"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/schema"
)

// namedProblems is how many problems a refusal names.
const namedProblems = 3

// schemaCheck checks merged metadata against the schema of one agent.
type schemaCheck struct {
	agent   string
	schema  *schema.Schema // nil without one
	broken  *apiv1.Refusal // why the schema itself cannot be used
	secrets *secret.Key
}

func newSchemaCheck(agent *agentv1.Agent, key *secret.Key) schemaCheck {
	c := schemaCheck{agent: agent.Name, secrets: key}
	if agent.Schema == "" {
		return c
	}
	var err error
	if c.schema, err = schema.Compile(agent.Schema); err != nil {
		c.broken = fault.RefusalOf(err)
	}
	return c
}

// problems returns how merged metadata breaks the schema, each with its path and the level that sets the value. names
// are those of the layers.
func (c schemaCheck) problems(all map[string]string, names []string, layers []map[string]string) []string {
	return c.problemsOf(all, names, layers, func(schema.Problem) bool { return true })
}

// problemsOf is problems of some.
func (c schemaCheck) problemsOf(
	all map[string]string, names []string, layers []map[string]string, counts func(schema.Problem) bool,
) []string {
	if c.schema == nil {
		return nil
	}
	values := metadata.Object(all)
	for name, sealed := range all {
		if secret.IsSealed(sealed) {
			values[name] = c.open(name, sealed)
		}
	}
	var out []string
	for _, p := range c.schema.Check(values, func(name string) bool { return secret.IsSealed(all[name]) }) {
		if c.secrets == nil && len(p.Path) > 0 && secret.IsSealed(all[p.Path[0]]) {
			continue // without the key nothing is known of a secret
		}
		if !counts(p) {
			continue
		}
		level := "no level sets it"
		if n := metadata.Level(p.Path, layers...); n >= 0 {
			level = "set by the " + names[n]
		}
		out = append(out, fmt.Sprintf("%s: %s (%s)", strings.Join(append([]string{"metadata"}, p.Path...), "."), p.What,
			level))
	}
	return out
}

// open returns a secret in clear for the check alone; its sealed form when it does not open.
func (c schemaCheck) open(name, sealed string) string {
	if c.secrets == nil {
		return sealed
	}
	value, err := c.secrets.Open(name, sealed)
	if err != nil {
		return sealed
	}
	return value
}

// refusal returns why merged metadata is refused, or nil.
func (c schemaCheck) refusal(all map[string]string, names []string, layers []map[string]string) *apiv1.Refusal {
	if c.broken != nil {
		return c.broken
	}
	return mismatch(c.agent, c.problems(all, names, layers))
}

// mismatch refuses metadata with problems; nil without any.
func mismatch(agent string, problems []string) *apiv1.Refusal {
	if len(problems) == 0 {
		return nil
	}
	text := strings.Join(problems[:min(len(problems), namedProblems)], "; ")
	if more := len(problems) - namedProblems; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return &apiv1.Refusal{
		Code:    code.SchemaMismatch,
		Message: fmt.Sprintf("the metadata breaks the schema of agent %q: %s", agent, text),
		Try:     "garrison agent show " + agent + ", for the schema; and change the value where it is set",
	}
}
