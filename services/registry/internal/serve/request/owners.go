package request

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
)

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
		return Invalid(code.BadOwner, "%d owners; %d are the most", len(owners), maxOwners)
	}
	seen := map[string]bool{}
	for _, o := range owners {
		if err := ident.CheckName("owner", o.GetName()); err != nil {
			return Invalid(code.BadOwner, "%v", err)
		}
		if seen[o.GetName()] {
			return Invalid(code.BadOwner, "owner %q is named twice", o.GetName())
		}
		seen[o.GetName()] = true
		if n := len(o.GetFields()); n > maxOwnedFields {
			return Invalid(code.BadOwner, "owner %q declares %d fields; %d are the most", o.GetName(), n,
				maxOwnedFields)
		}
		for path := range o.GetFields() {
			if path == "" || !Printable(path, maxOwnedPath) {
				return Invalid(code.BadOwner,
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
		return Invalid(code.BadDescription, "an origin must be printable and have %d bytes at most", maxOrigin)
	}
	return nil
}
