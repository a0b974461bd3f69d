package triton

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// Options say how a dump is turned into objects.
type Options struct {
	Owner       string                  // of the objects' fields
	Environment string                  // of the servers; empty means none
	Reporter    string                  // the user who reports virtual machines; empty leaves their services out
	Undeclared  bool                    // import agents that servers have and no service declares
	Kinds       map[string]agentv1.Kind // by the name of an agent; a daemon is one that is not among them
	Files       []string                // other files of the dump, which may be images
	Live        declare.Live            // the records that there are
	// Catalog returns the versions of an agent's images; nil when no defaults are wanted.
	Catalog func(agent string) ([]string, error)
}

// Result is what Garrison makes of a dump.
type Result struct {
	Set     *declare.Set
	Images  []Image           // to be imported
	Wanted  []Wanted          // what is wanted where, counted
	Placed  []Placed          // the same, each agent on each server
	Skipped []declare.Skipped // what is left out, and why
}

// convert turns a dump into objects.
type convert struct {
	*Dump
	options Options
	out     Result
	names   map[*declare.Kind]map[string]string // by kind and name, the UUID of what has it
	agents  map[string]string                   // names of agents by the UUID of their service
	apps    map[string]string                   // names of applications by UUID
	origins map[string]string                   // names of records by their origin
	ids     map[string]string                   // names of servers by id
}

// Objects returns what Garrison makes of a dump.
func (d *Dump) Objects(o Options) (Result, error) {
	c := &convert{
		Dump: d, options: o,
		names: map[*declare.Kind]map[string]string{declare.Agents: {}}, agents: map[string]string{},
		apps: map[string]string{}, origins: map[string]string{}, ids: map[string]string{},
		out: Result{Set: &declare.Set{Owner: o.Owner}},
	}
	c.know(o.Live)
	for id, f := range sorted(d.applications) {
		c.application(id, f)
	}
	for id, f := range sorted(d.services) {
		c.service(id, f)
	}
	if o.Environment != "" && len(d.servers) > 0 {
		c.add(declare.Environments, o.Environment, &environmentv1.Environment{}, d.first(d.servers))
	}
	for id, f := range sorted(d.servers) {
		c.server(id, f)
	}
	c.images()
	err := c.wanted()
	c.out.Skipped = d.allSkipped()
	return c.out, err
}

// know notes under which names the records are that were imported before.
func (c *convert) know(live declare.Live) {
	for _, k := range []*declare.Kind{declare.Applications, declare.Agents} {
		for name, record := range live[k] {
			if o, ok := record.(interface{ GetOrigin() string }); ok && o.GetOrigin() != "" {
				c.origins[o.GetOrigin()] = name
			}
		}
	}
	for name, record := range live[declare.Servers] {
		if s, ok := record.(*serverv1.Server); ok {
			c.ids[s.GetId()] = name
		}
	}
}

// sorted returns the objects in the order of their UUIDs.
func sorted(all map[string]found) func(yield func(string, found) bool) {
	return func(yield func(string, found) bool) {
		for _, id := range slices.Sorted(maps.Keys(all)) {
			if !yield(id, all[id]) {
				return
			}
		}
	}
}

// first returns the first of some objects.
func (d *Dump) first(all map[string]found) found {
	for _, f := range sorted(all) {
		return f
	}
	return found{}
}

// add adds an object with the fields that are set in its record.
func (c *convert) add(k *declare.Kind, name string, record proto.Message, from found) {
	c.out.Set.Objects = append(c.out.Set.Objects, declare.NewObject(k, name, record, from.file))
}

// take reserves a name for the object with a UUID. It reports false, and says why, when another one has it.
func (c *convert) take(k *declare.Kind, name, id string) bool {
	if c.names[k] == nil {
		c.names[k] = map[string]string{}
	}
	if other := c.names[k][name]; other != "" {
		c.skip(k.Word, name, "UUID "+id+": the name is taken by "+other+" of the dump")
		return false
	}
	if other, known := c.origins[Origin(id)]; known && other != name {
		c.skip(k.Word, name, "UUID "+id+": it was imported before under the name "+other)
		return false
	}
	c.names[k][name] = id
	return true
}

// Origin returns what an object with a UUID is called in Triton.
func Origin(id string) string { return "triton:" + id }
