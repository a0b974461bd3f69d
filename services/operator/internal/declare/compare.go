package declare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
)

// Action is what an apply does with an object.
type Action string

// The actions.
const (
	Create  Action = "create"
	Update  Action = "update"
	Claim   Action = "claim"   // no field differs; the owner is recorded
	Release Action = "release" // no field differs; the owner declares the object no longer
	Delete  Action = "delete"  // prune
)

// Actions are all actions, in the order in which they are counted.
var Actions = []Action{Create, Update, Claim, Release, Delete}

// Field is one value that changes.
type Field struct {
	Path, Before, After string
	Note                string
}

// Change is what an apply does with one object.
type Change struct {
	Kind   *Kind
	Name   string
	Action Action
	Fields []Field
	Have   proto.Message       // the record as it is; nil for a new one
	Next   proto.Message       // the record as it should be, with its owners
	Owner  *ownerv1.FieldOwner // what the owner declares from then on

	Note       string // what follows from it
	PlanSha256 []byte // the digest of what follows from it; without one it is not checked
	AtOnce     bool   // also when it reaches many servers without waves
}

// Problem is why an object cannot become as declared.
type Problem struct {
	At    Position
	Fixed bool // the field cannot change; otherwise another owner declares it
	Text  string
	Kind  *Kind
	Name  string

	Refusal *apiv1.Refusal // of a rollout, by the registry; then there is no text
}

// Rollout brings what an environment wants to its servers.
type Rollout struct {
	Environment string
	Intent      *intentv1.Intent
}

// Plan is what an apply does.
type Plan struct {
	Changes  []Change
	Problems []Problem
	Kept     []string // values that are left as they are, although the owner set them once, and why
	Dropped  []string // objects that the files no longer have; --prune deletes them
	Skipped  []Skipped
	Shown    []Shown // what else is shown: of an import, and of rollouts
	Rollouts []Rollout
}

// Shown is a line of a plan as it is printed.
type Shown struct {
	Action string `json:"action"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Field  string `json:"field,omitempty"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Note   string `json:"note,omitempty"`
}

// Skipped is an object that an import leaves out.
type Skipped struct{ Kind, Name, Reason string }

// Options change how files are compared.
type Options struct {
	Force bool // take fields over from other owners
	Prune bool // delete objects that the owner declared and the files no longer have
	Keep  bool // leave a value that was changed since the owner set it
}

// Live holds the records by kind and name.
type Live map[*Kind]map[string]proto.Message

// owned is a record that keeps what owners declare about it.
type owned interface {
	proto.Message
	GetOwners() []*ownerv1.FieldOwner
}

// Compare returns what makes the records as a set of files declares them.
func Compare(set *Set, live Live, o Options) *Plan {
	p := &Plan{}
	declared := map[*Kind]map[string]bool{}
	for _, obj := range set.Objects {
		if declared[obj.Kind] == nil {
			declared[obj.Kind] = map[string]bool{}
		}
		declared[obj.Kind][obj.Name] = true
		m := merge{plan: p, kind: obj.Kind, name: obj.Name, at: obj.At, owner: set.Owner, options: o}
		m.object(obj, live[obj.Kind][obj.Name])
	}
	for _, k := range Kinds {
		for _, name := range slices.Sorted(maps.Keys(live[k])) {
			record, ok := live[k][name].(owned)
			if !ok || declared[k][name] || ownerNamed(record, set.Owner) == nil {
				continue
			}
			m := merge{plan: p, kind: k, name: name, owner: set.Owner, options: o}
			m.dropped(record)
		}
	}
	p.order()
	return p
}

func ownerNamed(m proto.Message, name string) *ownerv1.FieldOwner {
	record, ok := m.(owned)
	if !ok {
		return nil
	}
	for _, o := range record.GetOwners() {
		if o.GetName() == name {
			return o
		}
	}
	return nil
}

// order sorts the changes: what is created and changed by kind, agents behind those that they need, and then what is
// deleted, in the reverse order of kinds.
func (p *Plan) order() {
	rank := func(c Change) int {
		at := slices.Index(Kinds, c.Kind)
		if c.Action == Delete {
			return 2*len(Kinds) - at
		}
		return at
	}
	depth := agentDepths(p.Changes)
	slices.SortStableFunc(p.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(depth[a.Name], depth[b.Name]),
			cmp.Compare(a.Name, b.Name))
	})
}

// agentDepths returns for each agent how long the chain of changed agents is that it needs.
func agentDepths(changes []Change) map[string]int {
	needs := map[string][]string{}
	for _, c := range changes {
		if a, ok := c.Next.(interface{ GetDependencies() []string }); ok && c.Kind == Agents {
			needs[c.Name] = a.GetDependencies()
		}
	}
	depth := map[string]int{}
	var visit func(name string, left int) int
	visit = func(name string, left int) int {
		if d, done := depth[name]; done || left == 0 { // the registry refuses a cycle
			return d
		}
		d := 0
		for _, n := range needs[name] {
			if _, changed := needs[n]; changed {
				d = max(d, 1+visit(n, left-1))
			}
		}
		depth[name] = d
		return d
	}
	for name := range needs {
		visit(name, len(needs))
	}
	for _, c := range changes {
		if c.Action == Delete {
			depth[c.Name] = -depth[c.Name]
		}
	}
	return depth
}

// Counts returns how many changes there are of each action.
func (p *Plan) Counts() map[Action]int {
	out := map[Action]int{}
	for _, c := range p.Changes {
		out[c.Action]++
	}
	return out
}

// Differs reports whether a record, or what is wanted of servers, differs from what is declared.
func (p *Plan) Differs() bool {
	return len(p.Visible()) > 0 || len(p.Problems) > 0 || len(p.Rollouts) > 0
}

// String returns the object in words.
func (c Change) String() string { return fmt.Sprintf("%s %s", c.Kind.Word, c.Name) }

// Visible returns the changes in which a field or the object itself differs.
func (p *Plan) Visible() []Change {
	return slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool {
		return c.Action == Claim || c.Action == Release
	})
}

// NewServers returns the names of servers that are declared and not known.
func (p *Plan) NewServers() (names []string) {
	for _, c := range p.Changes {
		if c.Kind == Servers && c.Action == Create {
			names = append(names, c.Name)
		}
	}
	return names
}

// Differences returns the fields of a kind, and the values of its maps, in which two records differ, by path. Either
// record may be nil.
func (k *Kind) Differences(a, b proto.Message) []Field {
	var out []Field
	for _, f := range k.fields() {
		for _, path := range paths(f, a, b) {
			l, ok := k.leafAt(path)
			if !ok {
				continue
			}
			d := Field{Path: path, Before: l.textOf(a.ProtoReflect()), After: l.textOf(b.ProtoReflect())}
			if d.Before != d.After {
				out = append(out, d)
			}
		}
	}
	return out
}

// paths returns the path of a field, or the paths of the values that it has in either record.
func paths(f protoreflect.FieldDescriptor, records ...proto.Message) []string {
	if !f.IsMap() {
		return []string{f.JSONName()}
	}
	var out []string
	for _, m := range records {
		for _, key := range keysOf(m.ProtoReflect().Get(f).Map()) {
			out = append(out, f.JSONName()+"."+key.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
