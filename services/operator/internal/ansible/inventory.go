package ansible

import (
	"cmp"
	"maps"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// The groups that every inventory has.
const (
	all       = "all"
	ungrouped = "ungrouped"
)

// MaxHosts is how many hosts an inventory may have.
const MaxHosts = 100_000

// Inventory is what an inventory says.
type Inventory struct {
	hosts  map[string]vars
	groups map[string]*group
}

// vars are variables whose values are single; others are empty.
type vars map[string]string

type group struct {
	hosts    map[string]bool
	children map[string]bool
	vars     vars
}

func newInventory() *Inventory {
	return &Inventory{hosts: map[string]vars{}, groups: map[string]*group{}}
}

// group returns a group, which is created when it is mentioned first.
func (i *Inventory) group(name string) *group {
	g := i.groups[name]
	if g == nil {
		g = &group{hosts: map[string]bool{}, children: map[string]bool{}, vars: vars{}}
		i.groups[name] = g
	}
	return g
}

// host adds a host to a group, with variables.
func (i *Inventory) host(name, group string, v vars) error {
	if _, known := i.hosts[name]; !known {
		if len(i.hosts) == MaxHosts {
			return refuse("more than %d hosts", MaxHosts)
		}
		i.hosts[name] = vars{}
	}
	maps.Copy(i.hosts[name], v)
	i.group(group).hosts[name] = true
	return nil
}

func refuse(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.BadDeclaration, format, args...)
}

// parents returns the groups that each group is in directly.
func (i *Inventory) parents() map[string][]string {
	out := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(i.groups)) {
		for child := range i.groups[name].children {
			out[child] = append(out[child], name)
		}
	}
	return out
}

// depths returns how far each group is from the top. It refuses groups that are in each other.
func (i *Inventory) depths() (map[string]int, error) {
	parents, depth, path := i.parents(), map[string]int{}, map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		if _, done := depth[name]; done {
			return nil
		}
		if path[name] {
			return refuse("group %q is in itself", name)
		}
		path[name] = true
		deepest := 0
		for _, p := range parents[name] {
			if err := visit(p); err != nil {
				return err
			}
			deepest = max(deepest, depth[p]+1)
		}
		depth[name] = deepest
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(i.groups)) {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return depth, nil
}

// Host is a host with the groups that it is in, directly or not, and its variables with the variables of the groups.
type Host struct {
	Name   string
	Groups []string
	Vars   map[string]string
}

// Hosts returns the hosts by name.
func (i *Inventory) Hosts() ([]Host, error) {
	depth, err := i.depths()
	if err != nil {
		return nil, err
	}
	depth[all] = -1 // the variables of all lose to every group's
	direct, parents := map[string][]string{}, i.parents()
	for name, g := range i.groups {
		for host := range g.hosts {
			direct[host] = append(direct[host], name)
		}
	}
	var out []Host
	for _, name := range slices.Sorted(maps.Keys(i.hosts)) {
		in := map[string]bool{all: true}
		for _, g := range direct[name] {
			above(g, parents, in)
		}
		order := slices.SortedFunc(maps.Keys(in), func(a, b string) int {
			return cmp.Or(cmp.Compare(depth[a], depth[b]), cmp.Compare(a, b))
		})
		h := Host{Name: name, Vars: map[string]string{}}
		for _, g := range order {
			if g != all && g != ungrouped {
				h.Groups = append(h.Groups, g)
			}
			if i.groups[g] != nil {
				maps.Copy(h.Vars, i.groups[g].vars)
			}
		}
		maps.Copy(h.Vars, i.hosts[name])
		slices.Sort(h.Groups)
		out = append(out, h)
	}
	return out, nil
}

// above adds a group and those that it is in, directly or not.
func above(name string, parents map[string][]string, to map[string]bool) {
	if to[name] {
		return
	}
	to[name] = true
	for _, p := range parents[name] {
		above(p, parents, to)
	}
}
