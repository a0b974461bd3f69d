package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/record"
)

// verbs are what putting a record does.
var verbs = map[registryv1.Expect]string{
	registryv1.Expect_EXPECT_UNSPECIFIED: "set",
	registryv1.Expect_EXPECT_ABSENT:      "create",
	registryv1.Expect_EXPECT_PRESENT:     "change",
}

// sentence returns what a request does, such as "change environment prod: channel=release (was dev)". Of a record that
// exists it names what differs.
func sentence(name string, request, have proto.Message) string {
	what, body := described(name, request)
	if subject := subjectOf(body); subject != "" {
		what += " " + subject
	}
	fields := differing(fieldsOf(body.ProtoReflect()), fieldsOf(ofMessage(have)))
	if len(fields) == 0 {
		return what
	}
	return what + ": " + cut(strings.Join(fields, ", "), mostFields)
}

func ofMessage(m proto.Message) protoreflect.Message {
	if m == nil {
		return nil
	}
	return m.ProtoReflect()
}

// described returns what a request does, and the message with the fields that say so.
func described(name string, request proto.Message) (string, proto.Message) {
	switch q := request.(type) {
	case *registryv1.PutRecordRequest:
		body := record.Body(q.GetRecord())
		return verbs[q.GetExpect()] + " " + spaced(string(body.ProtoReflect().Descriptor().Name())), body
	case *registryv1.DeleteRecordRequest:
		rest := proto.CloneOf(q)
		rest.Noun = ""
		noun := q.GetNoun()
		if noun == string(ledger.LabelRule) {
			noun = "label rule" // as a put calls it
		}
		return "delete " + noun, rest
	case *registryv1.ControlRolloutRequest:
		rest := proto.CloneOf(q)
		rest.Control = 0
		return listing.Word(q.GetControl()) + " rollout", rest
	case *registryv1.AnswerRolloutRequest:
		rest := proto.CloneOf(q)
		rest.Answer = 0
		return listing.Word(q.GetAnswer()) + " rollout", rest
	}
	return cmp.Or(called[name], spaced(name)), request
}

// called are the words for methods whose names are no commands.
var called = map[string]string{
	"AcceptLobby": "accept machine", "RejectLobby": "reject machine", "AddBlocks": "block",
	"DemoteImage": "remove from its channel image", "InviteServer": "enroll server", "SetDefault": "set default",
}

// spaced returns the name of a method as words: CreateAgent as create agent.
func spaced(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// subjects are the fields that name what a request is about. Of several the first does.
var subjects = []protoreflect.Name{"server", "name", "key", "image", "rollout_id", "task", "agent"}

// subjectField returns the field that names what a message is about, or nil.
func subjectField(m protoreflect.Message) protoreflect.FieldDescriptor {
	for _, name := range subjects {
		f := m.Descriptor().Fields().ByName(name)
		if f != nil && f.Kind() == protoreflect.StringKind && !f.IsList() && m.Has(f) {
			return f
		}
	}
	return nil
}

// subjectOf returns the name of what a message is about, or "".
func subjectOf(m proto.Message) string {
	if f := subjectField(m.ProtoReflect()); f != nil {
		return cut(m.ProtoReflect().Get(f).String(), mostValue)
	}
	return ""
}

const (
	// mostFields is how much of a request a dry run prints, so that it stays a line or two.
	mostFields = 300
	// mostValue is how much of one value.
	mostValue = 60
)

// field is a field of a request that is set.
type field struct{ name, value string }

// differing returns the fields of a request that a record does not have, with its own values of them, and the fields
// that it would no longer have.
func differing(next, have []field) (out []string) {
	for _, f := range next {
		if slices.Contains(have, f) {
			continue
		}
		text := f.name + "=" + f.value
		replaced := func(h field) bool { return h.name == f.name && !slices.Contains(next, h) }
		if n := slices.IndexFunc(have, replaced); n >= 0 {
			text += " (was " + have[n].value + ")"
		}
		out = append(out, text)
	}
	for _, h := range have {
		if !slices.ContainsFunc(next, func(f field) bool { return f.name == h.name }) {
			out = append(out, "no "+h.name+" (was "+h.value+")")
		}
	}
	return out
}

// unsaid are fields of a record that the service keeps, or that only a program reads.
var unsaid = []protoreflect.Name{"revision", "changed_at", "changed_by", "public_key", "plan_sha256"}

// words are the words of commands for fields that are called otherwise.
var words = map[protoreflect.Name]string{
	"set_labels": "label", "unset_labels": "no label", "valid_for": "valid", "name_from": "name-from",
	"set_metadata": "set", "wanted": "want",
}

// fieldsOf returns the fields of a message that are set, but the one that names it.
func fieldsOf(m protoreflect.Message) (out []field) {
	if m == nil {
		return nil
	}
	fields, subject := m.Descriptor().Fields(), subjectField(m)
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) || f == subject || slices.Contains(unsaid, f.Name()) {
			continue
		}
		name, value := cmp.Or(words[f.Name()], string(f.Name())), m.Get(f)
		switch {
		case f.IsMap():
			out = append(out, pairsOf(name, value.Map())...)
		case f.IsList():
			for n := range min(value.List().Len(), mostFields) {
				out = append(out, valuesOf(f, name, value.List().Get(n))...)
			}
		default:
			out = append(out, valuesOf(f, name, value)...)
		}
	}
	return out
}

// pairsOf returns the pairs of a map, sorted, without what is secret in them.
func pairsOf(name string, m protoreflect.Map) (out []field) {
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		out = append(out, field{name + "." + k.String(), cut(metadata.Text(v.String()), mostValue)})
		return true
	})
	slices.SortFunc(out, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return out
}

// valuesOf returns the fields of a message, or one value.
func valuesOf(f protoreflect.FieldDescriptor, name string, v protoreflect.Value) []field {
	switch f.Kind() {
	case protoreflect.MessageKind:
		switch m := v.Message().Interface().(type) {
		case *timestamppb.Timestamp:
			return []field{{name, listing.Stamp(m)}}
		case *durationpb.Duration:
			return []field{{name, listing.Span(m.AsDuration())}}
		case *intentv1.Condition:
			values := strings.Join(m.GetValues(), ",")
			return []field{{name, m.GetField() + " " + listing.Word(m.GetOperator()) + " " + values}}
		}
		if inner := fieldsOf(v.Message()); len(inner) > 0 {
			return inner
		}
		return []field{{name, cmp.Or(subjectOf(v.Message().Interface()), "set")}}
	case protoreflect.EnumKind:
		if d := f.Enum().Values().ByNumber(v.Enum()); d != nil {
			return []field{{name, listing.WordOf(f.Enum(), string(d.Name()))}}
		}
	case protoreflect.BytesKind:
		return []field{{name, fmt.Sprintf("%x", v.Bytes()[:min(6, len(v.Bytes()))])}}
	}
	return []field{{name, cut(fmt.Sprint(v.Interface()), mostValue)}}
}

// cut returns a text of at most most characters.
func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
