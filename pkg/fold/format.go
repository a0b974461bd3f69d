package fold

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"

	viewv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/view/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// snapshotFormat numbers the snapshot file. Whatever the format, the file begins with a
// length-delimited viewv1.Header and ends with the sha256 of all bytes before it.
var snapshotFormat = format.Spec{Kind: "snapshot", Now: 1, Floor: 1}

// kinds lists the kinds of facts that this program knows, for the nouns that a view folds.
func kinds(hears map[ledger.Noun]bool) []string {
	var out []string
	for _, k := range ledger.Kinds {
		if hears == nil || hears[k.Noun] {
			out = append(out, string(k.Noun)+"."+k.Name)
		}
	}
	slices.Sort(out)
	return out
}

// setOf returns the set of the nouns; nil means all.
func setOf(nouns []ledger.Noun) map[ledger.Noun]bool {
	if nouns == nil {
		return nil
	}
	hears := map[ledger.Noun]bool{}
	for _, n := range nouns {
		hears[n] = true
	}
	return hears
}

// FormatDigest returns a digest of how a view is folded: the layout, the contract, the nouns that are known, the
// tables, and the descriptors of their records and of the facts that the view folds. Code that folds the
// same facts to other records does not change it; package foldtest notices that.
func FormatDigest(v View, layout uint32, nouns []ledger.Noun) []byte {
	return foldDigest(v, layout, setOf(nouns))
}

func foldDigest(v View, layout uint32, hears map[ledger.Noun]bool) []byte {
	sum := sha256.New()
	fmt.Fprintf(sum, "layout %d contract %d\n", layout, version.Contract)
	all := descriptors{}
	for _, t := range v.Tables() {
		fmt.Fprintf(sum, "table %s of %s\n", t.Name(), t.record().FullName())
		all.add(t.record())
	}
	for _, k := range ledger.Kinds {
		fmt.Fprintf(sum, "noun %s\n", k.Noun) // facts of others count as unread, heard or not
		if hears == nil || hears[k.Noun] {
			fmt.Fprintf(sum, "fact %s.%s of %s\n", k.Noun, k.Name, k.Body.ProtoReflect().Descriptor().FullName())
			all.add(k.Body.ProtoReflect().Descriptor())
		}
	}
	all.write(sum)
	return sum.Sum(nil)
}

// descriptors are messages and enums, by their full names.
type descriptors map[protoreflect.FullName]proto.Message

func (d descriptors) add(m protoreflect.MessageDescriptor) {
	if _, there := d[m.FullName()]; there {
		return
	}
	d[m.FullName()] = protodesc.ToDescriptorProto(m)
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if f.Message() != nil {
			d.add(f.Message())
		}
		if e := f.Enum(); e != nil {
			d[e.FullName()] = protodesc.ToEnumDescriptorProto(e)
		}
	}
}

func (d descriptors) write(w io.Writer) {
	for _, name := range slices.Sorted(maps.Keys(d)) {
		data, _ := proto.MarshalOptions{Deterministic: true}.Marshal(d[name]) // a descriptor always encodes
		fmt.Fprintf(w, "%s %d\n", name, len(data))
		_, _ = w.Write(data)
	}
}

// usable returns the reason not to use an intact snapshot, or nil.
func (f *Follower) usable(h *viewv1.Header) error {
	have := format.Stamp{Format: h.Format, Floor: h.FormatFloor}
	if err := snapshotFormat.Check(f.snapshotFile(), have); err != nil {
		return err
	}
	if h.Service != f.opts.Service || h.LedgerCreatedNs != f.source.created.UnixNano() {
		return fault.New(fault.Conflict, "snapshot is of another ledger or service")
	}
	if h.Format == 0 {
		return fault.New(fault.Conflict, "snapshot does not name the facts that its writer knew")
	}
	if more, fewer := differ(kinds(f.hears), h.Kinds); len(more)+len(fewer) > 0 {
		return fault.New(fault.Conflict,
			"snapshot's writer knew other facts: it lacks %v, and has %v that this program does not know", more, fewer)
	}
	if !bytes.Equal(h.FoldDigest, foldDigest(f.view, f.opts.Layout, f.hears)) {
		return fault.New(fault.Conflict, "snapshot was folded by another version of the view (layout %d, here %d)",
			h.Layout, f.opts.Layout)
	}
	return nil
}

// differ returns the elements that only the first list has, and those that only the second has.
func differ(a, b []string) (onlyA, onlyB []string) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			onlyA = append(onlyA, x)
		}
	}
	for _, x := range b {
		if !slices.Contains(a, x) {
			onlyB = append(onlyB, x)
		}
	}
	return onlyA, onlyB
}
