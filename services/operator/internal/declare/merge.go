package declare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"

	"github.com/garrison-fleet/garrison/pkg/secret"
)

// itself is the path that stands for the object: its owner declares that it exists.
const itself = "."

// merge compares one object: what its owner declared last, the record, and what the owner declares now.
type merge struct {
	plan    *Plan
	kind    *Kind
	name    string
	at      Position
	owner   string
	options Options

	have   proto.Message
	next   proto.Message
	last   map[string]uint64 // what the owner declared last
	now    map[string]uint64
	others []*ownerv1.FieldOwner
	fields []Field
	failed bool
}

// begin sets the record that the object has; nil for none.
func (m *merge) begin(have proto.Message) {
	m.have, m.next = have, m.kind.Blank()
	m.now = map[string]uint64{}
	if have == nil {
		return
	}
	m.next = proto.Clone(have)
	m.last = ownerNamed(have, m.owner).GetFields()
	if record, ok := m.next.(owned); ok {
		for _, o := range record.GetOwners() {
			if o.GetName() != m.owner {
				m.others = append(m.others, o)
			}
		}
	}
}

// object compares a declared object with its record.
func (m *merge) object(o *Object, have proto.Message) {
	m.begin(have)
	m.now[itself] = digest("")
	want := o.Record.ProtoReflect()
	for _, path := range slices.Sorted(maps.Keys(o.Paths)) {
		if l, ok := m.kind.leafAt(path); ok {
			m.declared(path, l, want)
		}
	}
	m.released(o.Paths)
	if m.failed {
		return
	}
	m.finish()
}

// declared brings one field to the declared value.
func (m *merge) declared(path string, l leaf, want protoreflect.Message) {
	before, after := "", l.textOf(want)
	if m.have != nil {
		before = l.textOf(m.have.ProtoReflect())
	}
	v, set := l.get(want)
	_, had := l.get(m.next.ProtoReflect())
	if before == after && (set == had || !l.field.IsMap()) {
		m.now[path] = digest(after)
		return
	}
	changed := m.changedSince(path, before)
	if m.keeps(path, before, had, changed) || m.refused(path, l, before, after) {
		return
	}
	f := Field{Path: path, Before: before, After: after}
	if changed {
		f.Note = "changed since the last apply"
	}
	m.fields = append(m.fields, f)
	m.now[path] = digest(after)
	if set {
		l.set(m.next.ProtoReflect(), v)
	} else {
		l.clear(m.next.ProtoReflect())
	}
}

// changedSince reports whether a field that the owner set has another value since.
func (m *merge) changedSince(path, before string) bool {
	last, mine := m.last[path]
	return mine && m.have != nil && last != digest(before)
}

// keeps reports whether a value stays because the options keep what the owner did not set.
func (m *merge) keeps(path, before string, had, changed bool) bool {
	last, mine := m.last[path]
	if !m.options.Keep || !had || mine && !changed {
		return false
	}
	if mine {
		m.now[path] = last
	}
	m.plan.Kept = append(m.plan.Kept,
		fmt.Sprintf("%s %s: %s is %q here and stays", m.kind.Word, m.name, path, secret.Text(before)))
	return true
}

// refused refuses a change of a field that never changes, or that another owner declares. With force, the other owner
// loses the field.
func (m *merge) refused(path string, l leaf, before, after string) bool {
	if m.have != nil && slices.Contains(m.kind.Fixed, l.field.Name()) {
		m.refuse(true, "%s of %s %q is %q and cannot become %q", path, m.kind.Word, m.name, before, after)
		return true
	}
	other := m.otherWith(path)
	if other == nil {
		return false
	}
	if !m.options.Force {
		m.refuse(false, "%s of %s %q is %q, which owner %q declares; here it is %q", path, m.kind.Word, m.name,
			secret.Text(before), other.GetName(), secret.Text(after))
		return true
	}
	delete(other.Fields, path)
	return false
}

// released removes what the owner set and no longer declares, unless its value is not the one that it set, or
// another owner declares it.
func (m *merge) released(declared map[string]bool) {
	for _, path := range slices.Sorted(maps.Keys(m.last)) {
		l, ok := m.kind.leafAt(path)
		if !ok || declared[path] || m.otherWith(path) != nil || slices.Contains(m.kind.Fixed, l.field.Name()) {
			continue
		}
		_, has := l.get(m.next.ProtoReflect())
		before := l.textOf(m.next.ProtoReflect())
		switch {
		case !has:
		case digest(before) != m.last[path]:
			m.plan.Kept = append(m.plan.Kept,
				fmt.Sprintf("%s %s: %s was changed since the last apply and stays", m.kind.Word, m.name, path))
		default:
			l.clear(m.next.ProtoReflect())
			m.fields = append(m.fields, Field{Path: path, Before: before, Note: "no longer declared"})
		}
	}
}

// dropped handles an object that the owner declared and the files no longer have.
func (m *merge) dropped(have proto.Message) {
	m.begin(have)
	if !m.options.Prune {
		m.plan.Dropped = append(m.plan.Dropped, m.kind.Word+" "+m.name)
		return
	}
	if m.kind == Servers || len(m.others) > 0 { // servers are decommissioned; others still declare the object
		m.released(nil)
		m.finish()
		return
	}
	m.plan.Changes = append(m.plan.Changes, Change{
		Kind: m.kind, Name: m.name, Action: Delete, Have: m.have, Next: m.next,
	})
}

// otherWith returns another owner that declares a field.
func (m *merge) otherWith(path string) *ownerv1.FieldOwner {
	for _, o := range m.others {
		if _, ok := o.GetFields()[path]; ok {
			return o
		}
	}
	return nil
}

func (m *merge) refuse(fixed bool, format string, args ...any) {
	m.failed = true
	m.plan.Problems = append(m.plan.Problems, Problem{
		At: m.at, Fixed: fixed, Text: fmt.Sprintf(format, args...), Kind: m.kind, Name: m.name,
	})
}

// finish adds the change when something differs.
func (m *merge) finish() {
	c := Change{
		Kind: m.kind, Name: m.name, Fields: m.fields, Have: m.have, Next: m.next,
		Owner: &ownerv1.FieldOwner{Name: m.owner, Fields: m.now},
	}
	m.setOwners(c.Owner)
	switch {
	case m.have == nil:
		c.Action = Create
	case len(m.fields) > 0:
		c.Action = Update
	case m.kind == Channels || maps.Equal(m.last, m.now):
		return
	case len(m.now) > 0:
		c.Action = Claim
	default:
		c.Action = Release
	}
	m.plan.Changes = append(m.plan.Changes, c)
}

// setOwners writes the owners into the record, sorted by name.
func (m *merge) setOwners(mine *ownerv1.FieldOwner) {
	f := m.next.ProtoReflect().Descriptor().Fields().ByName("owners")
	if f == nil {
		return
	}
	all := slices.DeleteFunc(slices.Clone(m.others), func(o *ownerv1.FieldOwner) bool {
		return len(o.GetFields()) == 0
	})
	if len(mine.GetFields()) > 0 {
		all = append(all, mine)
	}
	slices.SortFunc(all, func(a, b *ownerv1.FieldOwner) int { return cmp.Compare(a.GetName(), b.GetName()) })
	m.next.ProtoReflect().Clear(f)
	list := m.next.ProtoReflect().Mutable(f).List()
	for _, o := range all {
		list.Append(protoreflect.ValueOfMessage(o.ProtoReflect()))
	}
}
