package record

import (
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// maxOutdated is how many agents a change names.
const maxOutdated = 20

// sayOutdated prints which instances have another configuration than they would get now, and the commands that bring
// it.
func (k Noun[T]) sayOutdated(env *cli.Env, name string, outdated []*registryv1.Outdated) {
	for _, o := range outdated[:min(len(outdated), maxOutdated)] {
		if o.GetInstances() > 0 {
			env.Say("%s of %s would get another configuration: garrison configure %s --on %s",
				output.Plural(int(o.GetInstances()), "instance"), o.GetAgent(), o.GetAgent(), k.On(name))
		}
		if o.GetLeftOut() > 0 {
			env.Say("%s of %s would be left out; the first: %s", output.Plural(int(o.GetLeftOut()), "instance"),
				o.GetAgent(), fault.Line(o.GetFirst()))
		}
	}
	if more := len(outdated) - maxOutdated; more > 0 {
		env.Say("… and instances of %s", output.Plural(more, "more agent"))
	}
}
