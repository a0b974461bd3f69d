package declarations

import (
	"strings"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// countedAtOnce is how many instances are counted while the view stands still.
const countedAtOnce = 2000

// concern is the instances that the metadata of one declared record configures; empty means all.
type concern struct{ agent, application, environment string }

// configures reports whether the fields that a change changed configure instances.
func configures(changed []string) bool {
	for _, field := range changed {
		switch name, _, _ := strings.Cut(field, "."); name {
		case "metadata", "schema", "application", "defaults":
			return true
		}
	}
	return false
}

// agents returns the concerned agents by name. It must run inside Read.
func (c concern) agents(v *view.View) []string {
	if c.agent != "" {
		return []string{c.agent}
	}
	var out []string
	for name, a := range v.Agents("") {
		if c.application == "" || a.Application == c.application {
			out = append(out, name)
		}
	}
	return out
}

// outdatedBy counts the concerned instances that a configure would change or leave out, by agent.
func outdatedBy(r *records.Records, c concern) (out []*registryv1.Outdated) {
	var names []string
	r.Follower.Read(func() { names = c.agents(r.View) })
	for _, name := range names {
		total := &registryv1.Outdated{Agent: name}
		for after, more := "", true; more; {
			r.Follower.Read(func() { after, more = countOutdated(r, total, c, after) })
		}
		if total.Instances+total.LeftOut > 0 {
			out = append(out, total)
		}
	}
	return out
}

// countOutdated counts one part of an agent's instances, and returns where the next part begins and whether there may
// be one. It must run inside Read.
func countOutdated(r *records.Records, total *registryv1.Outdated, c concern, after string) (last string, more bool) {
	agent, ok := r.View.Agent(total.Agent)
	if !ok {
		return "", false
	}
	part, n := intent.NewOutdated(r.View, agent, r.Secrets), 0
	for key, i := range r.View.Instances(view.InstanceFilter{Agent: agent.Name, Environment: c.environment}, after) {
		part.Add(i)
		if last, n = key, n+1; n == countedAtOnce {
			break
		}
	}
	total.Instances += part.Instances
	total.LeftOut += part.LeftOut
	if total.First == nil {
		total.First = part.First
	}
	return last, n == countedAtOnce
}

// after is the view as it is after a change of declared records. A field that is nil is as it was.
type after struct {
	*view.View
	agent       *agentv1.Agent
	application *applicationv1.Application
	environment *environmentv1.Environment
}

// Agent implements intent.Reader.
func (a after) Agent(name string) (*agentv1.Agent, bool) {
	if a.agent != nil && a.agent.Name == name {
		return a.agent, true
	}
	return a.View.Agent(name)
}

// Application implements intent.Reader.
func (a after) Application(name string) (*applicationv1.Application, bool) {
	if a.application != nil && a.application.Name == name {
		return a.application, true
	}
	return a.View.Application(name)
}

// Environment implements intent.Reader.
func (a after) Environment(name string) (*environmentv1.Environment, bool) {
	if a.environment != nil && a.environment.Name == name {
		return a.environment, true
	}
	return a.View.Environment(name)
}

// broken refuses a change after which an agent's own values, or instances without own values, break its schema. It must
// run inside Read.
func broken(r *records.Records, next after, c concern) *apiv1.Refusal {
	if c.environment == "" {
		for _, name := range c.agents(r.View) {
			if refusal := intent.BrokenValues(r.View, next, name, r.Secrets); refusal != nil {
				return refusal
			}
		}
	}
	environments := []string{c.environment}
	if c.environment == "" {
		for name := range r.View.Environments("") {
			environments = append(environments, name)
		}
	}
	for _, name := range c.agents(r.View) {
		if a, _ := next.Agent(name); a.GetSchema() == "" {
			continue
		}
		for _, environment := range environments {
			if !shares(r, name, environment) {
				continue
			}
			if refusal := intent.Broken(r.View, next, name, environment, r.Secrets); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// shares reports whether an agent has an instance without own values in an environment; empty means in none. It must
// run inside Read.
func shares(r *records.Records, agent, environment string) bool {
	for _, i := range r.View.Instances(view.InstanceFilter{Agent: agent, Environment: environment}, "") {
		s, ok := r.View.Server(i.ServerId)
		if ok && s.Environment == environment && i.Wanted != nil && len(i.GetConfiguration().GetOwn()) == 0 {
			return true
		}
	}
	return false
}
