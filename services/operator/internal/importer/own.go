package importer

import (
	"maps"
	"slices"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/metadata"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/triton"
)

// bytesByIntent bounds the own values that one intent brings.
const bytesByIntent = 128 << 10

// ownRows returns the own values of an instance as lines of a plan.
func ownRows(action, name string, own map[string]string) (out []declare.Shown) {
	for _, key := range slices.Sorted(maps.Keys(own)) {
		out = append(out, declare.Shown{
			Action: action, Kind: "instance", Name: name, Field: "metadata." + key, After: metadata.Text(own[key]),
		})
	}
	return out
}

// configureOnce brings own values to an instance that is there, unless it had some before.
func (i *installs) configureOnce(p triton.Placed, name string, before bool) {
	if len(p.Own) > 0 && !before {
		i.configure[[2]string{p.Agent, p.Server}] = p.Own
		i.shown = append(i.shown, ownRows("configure", name, p.Own)...)
	}
}

// chunks divides servers that get an agent into those of one intent each: not too many, and not with too large values.
func (i installs) chunks(agent string, servers []string) (out [][]string) {
	size := 0
	for _, server := range servers {
		add := sizeOf(i.own[[2]string{agent, server}])
		last := len(out) - 1
		if last < 0 || len(out[last]) == servedByIntent || size+add > bytesByIntent {
			out, last, size = append(out, nil), last+1, 0
		}
		out[last], size = append(out[last], server), size+add
	}
	return out
}

func sizeOf(own map[string]string) (n int) {
	for key, value := range own {
		n += len(key) + len(value)
	}
	return n
}

// configures returns the intents that set own values of instances that are there and never had any. Instances of an
// agent with the same values share one.
func (i installs) configures() (out []*registryv1.PlanIntentRequest) {
	type key struct{ agent, digest string }
	shared := map[key]*intentv1.Configure{}
	for _, at := range slices.SortedFunc(maps.Keys(i.configure), func(a, b [2]string) int {
		return slices.Compare(a[:], b[:])
	}) {
		own := i.configure[at]
		k := key{at[0], string(metadata.Digest(own))}
		ask := shared[k]
		if ask == nil || len(ask.GetOn().GetServers()) == servedByIntent {
			never := uint64(0)
			ask = &intentv1.Configure{Agent: at[0], On: &intentv1.Selector{}, Set: own, IfRevision: &never}
			shared[k] = ask
			out = append(out, &registryv1.PlanIntentRequest{
				Intent: &intentv1.Intent{Ask: &intentv1.Intent_Configure{Configure: ask}},
			})
		}
		ask.On.Servers = append(ask.On.Servers, at[1])
	}
	return out
}
