package page

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Request is a request for a part of a list.
type Request interface {
	proto.Message
	GetPage() *apiv1.Page
}

// digestBytes is how much of a filter's digest a cursor holds. It tells filters apart that a caller mixed up; a forged
// one only hurts its sender.
const digestBytes = 6

// After returns the key after which the requested part starts; empty for the first part. A cursor of another list, or
// of the same list with another filter, is refused with BAD_CURSOR: it would skip rows.
func After(q Request) (key string, err error) {
	cursor := q.GetPage().GetCursor()
	if cursor == "" {
		return "", nil
	}
	digest, key, ok := strings.Cut(cursor, "-")
	if !ok || key == "" || digest != digestOf(q) {
		return "", fault.Refusef(fault.Invalid, code.BadCursor,
			"the cursor %.120q does not come from this list with this filter", cursor).
			Try("the list without --cursor, or the cursor with the flags that led to it")
	}
	return key, nil
}

// Cursor returns the cursor of the part after a key; empty for an empty key, at the end of the list.
func Cursor(q Request, key string) string {
	if key == "" {
		return ""
	}
	return digestOf(q) + "-" + key
}

// digestOf returns the digest of a request without its page.
func digestOf(q Request) string {
	m := proto.Clone(q).ProtoReflect()
	if f := m.Descriptor().Fields().ByName("page"); f != nil {
		m.Clear(f)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append(data, m.Descriptor().FullName()...))
	return hex.EncodeToString(sum[:digestBytes])
}
