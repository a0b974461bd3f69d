package ledger

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/version"
)

// Newer is the error of a fact that this program does not know, as a whole or in part: a newer version recorded it.
type Newer struct {
	What   string // what is not known, such as "strategy: unknown field 9"
	Writer string // the version that recorded it; empty when the fact does not name one
}

// Error says what is not known, and which version recorded it.
func (n *Newer) Error() string {
	if n.Writer == "" {
		return n.What
	}
	return n.What + ", recorded by version " + n.Writer
}

// Contract returns the number of the contract that a reader of a fact must know: the highest since of its kind and of
// the fields and values that it holds. The option since of the contract numbers what came after the first release.
func Contract(body proto.Message) uint32 {
	m := body.ProtoReflect()
	if newest(m.Descriptor()) == 1 {
		return 1
	}
	return held(m)
}

// held returns the highest number of what a message holds.
func held(m protoreflect.Message) uint32 {
	n := messageSince(m.Descriptor())
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		n = max(n, fieldSince(fd))
		switch {
		case fd.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				n = max(n, heldValue(fd.MapValue(), v))
				return true
			})
		case fd.IsList():
			for i := range v.List().Len() {
				n = max(n, heldValue(fd, v.List().Get(i)))
			}
		default:
			n = max(n, heldValue(fd, v))
		}
		return true
	})
	return n
}

func heldValue(fd protoreflect.FieldDescriptor, v protoreflect.Value) uint32 {
	if fd.Message() != nil {
		return held(v.Message())
	}
	if fd.Enum() != nil {
		if value := fd.Enum().Values().ByNumber(v.Enum()); value != nil {
			return since(value, apiv1.E_ValueSince)
		}
	}
	return 1
}

func messageSince(d protoreflect.MessageDescriptor) uint32 { return since(d, apiv1.E_MessageSince) }

func fieldSince(d protoreflect.FieldDescriptor) uint32 { return since(d, apiv1.E_Since) }

// since returns the number of the contract that added what a descriptor describes.
func since(d protoreflect.Descriptor, option protoreflect.ExtensionType) uint32 {
	n, _ := proto.GetExtension(d.Options(), option).(uint32)
	return max(n, 1)
}

// newestOf holds, for each message, the highest number of all that it may hold.
var newestOf sync.Map // of uint32, by full name

func newest(d protoreflect.MessageDescriptor) uint32 {
	if n, there := newestOf.Load(d.FullName()); there {
		return n.(uint32)
	}
	n := newestWithin(d, map[protoreflect.FullName]bool{})
	newestOf.Store(d.FullName(), n)
	return n
}

func newestWithin(d protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) uint32 {
	n := messageSince(d)
	if seen[d.FullName()] {
		return n
	}
	seen[d.FullName()] = true
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		n = max(n, fieldSince(fd))
		if fd.Message() != nil {
			n = max(n, newestWithin(fd.Message(), seen))
		}
		for j := range valuesOf(fd) {
			n = max(n, since(fd.Enum().Values().Get(j), apiv1.E_ValueSince))
		}
	}
	return n
}

func valuesOf(fd protoreflect.FieldDescriptor) int {
	if fd.Enum() == nil {
		return 0
	}
	return fd.Enum().Values().Len()
}

// HeaderContract is on a fact that a program of the first release cannot read: the number of the contract that its
// readers must know, and the version that recorded it.
const HeaderContract = "Garrison-Contract"

// contractHeader returns the header of a fact that needs a contract.
func contractHeader(number uint32) string { return fmt.Sprintf("%d %s", number, version.Version) }

// readContract reads the header. A number that is no number is one that no program knows.
func readContract(header string) (number uint64, writer string) {
	if header == "" {
		return 1, ""
	}
	text, writer, _ := strings.Cut(header, " ")
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 1 << 32, writer
	}
	return number, writer
}
