// Package request has what the methods of the API share: limits of fields and pages, owners, refusals and answers.
package request

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
)

// Invalid refuses a request with a wrong field.
func Invalid(code, format string, args ...any) *fault.Error {
	return fault.Refusef(fault.Invalid, code, format, args...)
}

// NotFound returns a refusal of a decision that something does not exist as an error.
func NotFound(r *apiv1.Refusal) error { return fault.Refuse(fault.NotFound, r) }

// BadName refuses a malformed name.
func BadName(err error) error { return Invalid(code.BadName, "%v", err) }

// The limits of what operators write.
const (
	maxLabels      = 64
	maxLabelValue  = 255
	MaxDescription = 1000
	MaxReason      = 1000
)

// CheckNewLabels refuses what CheckLabels refuses, and labels that no selector can name.
func CheckNewLabels(labels map[string]string) error {
	for k, v := range labels {
		if strings.Contains(v, ",") {
			return Invalid(code.Invalid, "label %q: a value has no comma, which separates labels in a selector", k).
				Try("--label once for each label")
		}
		if slices.Contains(selectorWords, k) {
			return Invalid(code.Invalid, "label %q: a selector reads that name as something else", k).
				Try("garrison server set SERVER --env NAME")
		}
	}
	return CheckLabels(labels)
}

// selectorWords are names that mean something else in a selector: --on env=prod are servers of an environment.
var selectorWords = []string{"env", "all"}

// CheckLabels refuses labels that a selector or a variable cannot name.
func CheckLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return Invalid(code.Invalid, "%d labels; %d are the most", len(labels), maxLabels)
	}
	for k, v := range labels {
		if err := ident.CheckHostname("label", k); err != nil || len(k) > 63 {
			return Invalid(code.Invalid,
				"label %q: want 1 to 63 letters, digits, inner dashes, underscores and dots", k)
		}
		if !Printable(v, maxLabelValue) {
			return Invalid(code.Invalid,
				"label %q: its value must be printable and have %d bytes at most", k, maxLabelValue)
		}
	}
	return nil
}

// CheckDescription refuses a description that is too long or not printable.
func CheckDescription(s string) error {
	if !Printable(s, MaxDescription) {
		return Invalid(code.Invalid,
			"a description must be printable and have %d bytes at most", MaxDescription)
	}
	return nil
}

// Printable reports whether a text is printable UTF-8 of so many bytes at most.
func Printable(s string, longest int) bool {
	if len(s) > longest || !utf8.ValidString(s) {
		return false
	}
	for _, c := range s {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}

// Answer returns a response or an error, never both.
func Answer[R any](resp *R, err error) (*R, error) {
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// NameTaken refuses a name that another living server has.
func NameTaken(name string) error {
	return AlreadyExists("server", name, "garrison server show "+name)
}

// AlreadyExists refuses to create a record that exists.
func AlreadyExists(noun, name, try string) error {
	return fault.Refusef(fault.Conflict, code.Exists, "%s %q exists", noun, name).Try(try)
}

// OneLine returns a text from a machine as one line of bounded length.
func OneLine(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	if len(text) > MaxReason {
		text = strings.ToValidUTF8(text[:MaxReason], "")
	}
	return text
}

// The limits of what the owners of a record's fields write into it.
const (
	maxOwners      = 8
	maxOwnedFields = 512
	maxOwnedPath   = 200
	maxOrigin      = 255
)

// CheckOwners refuses owners that are unnamed or named twice, and too many fields or paths too long.
func CheckOwners(owners []*ownerv1.FieldOwner) error {
	if len(owners) > maxOwners {
		return Invalid(code.Invalid, "%d owners; %d are the most", len(owners), maxOwners)
	}
	seen := map[string]bool{}
	for _, o := range owners {
		if err := ident.CheckName("owner", o.GetName()); err != nil {
			return Invalid(code.Invalid, "%v", err)
		}
		if seen[o.GetName()] {
			return Invalid(code.Invalid, "owner %q is named twice", o.GetName())
		}
		seen[o.GetName()] = true
		if n := len(o.GetFields()); n > maxOwnedFields {
			return Invalid(code.Invalid, "owner %q declares %d fields; %d are the most", o.GetName(), n,
				maxOwnedFields)
		}
		for path := range o.GetFields() {
			if path == "" || !Printable(path, maxOwnedPath) {
				return Invalid(code.Invalid,
					"owner %q: the path of a field must be printable and have 1 to %d bytes", o.GetName(), maxOwnedPath)
			}
		}
	}
	return nil
}

// WithOwner returns owners with one of them replaced; an owner without fields is removed, and nil changes nothing.
func WithOwner(owners []*ownerv1.FieldOwner, next *ownerv1.FieldOwner) []*ownerv1.FieldOwner {
	if next == nil {
		return owners
	}
	out := slices.DeleteFunc(slices.Clone(owners), func(o *ownerv1.FieldOwner) bool {
		return o.GetName() == next.GetName()
	})
	if len(next.GetFields()) == 0 {
		return out
	}
	out = append(out, next)
	slices.SortFunc(out, func(a, b *ownerv1.FieldOwner) int {
		if a.GetName() < b.GetName() {
			return -1
		}
		return 1
	})
	return out
}

// SameOwners reports whether two lists hold the same owners in the same order.
func SameOwners(a, b []*ownerv1.FieldOwner) bool {
	return slices.EqualFunc(a, b, func(x, y *ownerv1.FieldOwner) bool { return proto.Equal(x, y) })
}

// CheckOrigin refuses the name that a record has in another system when it is no line of text.
func CheckOrigin(origin string) error {
	if !Printable(origin, maxOrigin) {
		return Invalid(code.Invalid, "an origin must be printable and have %d bytes at most", maxOrigin)
	}
	return nil
}
