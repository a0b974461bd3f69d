package intent

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/metadata"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// mostValues is how many different changes of values a plan lists, and mostCounted how many it counts.
const (
	mostValues  = 100
	mostCounted = 10_000
)

// valueKey is one difference between two configurations of an agent.
type valueKey struct {
	agent, name, from, to string
	had, has              bool
}

// ValueChanges counts the servers of each change of a value.
type ValueChanges map[valueKey]uint32

// Add adds the differences between two configurations of an agent on one server.
func (v ValueChanges) Add(agent string, from, to map[string]string) {
	for name, before := range from {
		if after, has := to[name]; !has || after != before {
			v.count(valueKey{agent: agent, name: name, from: before, to: after, had: true, has: has})
		}
	}
	for name, after := range to {
		if _, had := from[name]; !had {
			v.count(valueKey{agent: agent, name: name, to: after, has: true})
		}
	}
}

func (v ValueChanges) count(k valueKey) {
	if v[k] > 0 || len(v) < mostCounted {
		v[k]++
	}
}

// List returns the changes by agent, name and number of servers, as people see them, and how many more there are.
func (v ValueChanges) List() (out []*registryv1.ValueChange, more uint32) {
	for k, n := range v {
		c := &registryv1.ValueChange{Agent: k.agent, Name: k.name, Servers: n}
		if k.had {
			c.From = proto.String(metadata.Text(k.from))
		}
		if k.has {
			c.To = proto.String(metadata.Text(k.to))
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *registryv1.ValueChange) int {
		return cmp.Or(strings.Compare(a.Agent, b.Agent), strings.Compare(a.Name, b.Name),
			cmp.Compare(b.Servers, a.Servers), strings.Compare(a.GetFrom(), b.GetFrom()),
			strings.Compare(a.GetTo(), b.GetTo()))
	})
	if n := len(out) - mostValues; n > 0 {
		return out[:mostValues], uint32(n)
	}
	return out, 0
}
