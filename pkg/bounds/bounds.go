// Package bounds cuts what servers and invited servers send to what may be decided on. A service calls it on every
// message right after it was decoded, so that no decision, view, log line or fact sees more than the table allows.
//
//	report := &reportv1.Report{}
//	err := bus.Unmarshal(m, report)
//	if err == nil {
//		err = bounds.Report(report)
//	}
//
// Guarantees:
//
//  1. One table holds all limits, and a field that it does not name has a default limit: a new field is bounded too.
//  2. A text is cut at the border of a character and ends with "…". The lists of a sysinfo are cut and the rest is
//     counted. Fields that the contract does not have are dropped.
//  3. A list that means something by what is absent, an overlong digest or key, a time or a size that cannot be, and a
//     malformed platform are refused: the error is Invalid.
//  4. Cutting twice changes nothing, and equal messages are cut to equal ones. So an enrolment and a report of the same
//     sysinfo do not differ.
package bounds

import (
	"regexp"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fault"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Beat cuts a beat. An error is Invalid.
func Beat(b *reportv1.Beat) error { return cut(b.ProtoReflect()) }

// Report cuts a report of any kind. An error is Invalid.
func Report(r *reportv1.Report) error {
	if err := cut(r.ProtoReflect()); err != nil {
		return err
	}
	return whole(r.GetSysinfo().GetSysinfo())
}

// Shown cuts what a server found after a change. An error is Invalid.
func Shown(s *taskv1.Shown) error { return cut(s.ProtoReflect()) }

// Enrolment cuts a request to enrol. An error is Invalid.
func Enrolment(q *registryv1.EnrolRequest) error {
	if err := cut(q.ProtoReflect()); err != nil {
		return err
	}
	return whole(q.Sysinfo)
}

// Knock cuts what a machine without a token says of itself. An error is Invalid.
func Knock(k *registryv1.Knock) error {
	if err := cut(k.ProtoReflect()); err != nil {
		return err
	}
	return whole(k.Sysinfo)
}

// isToken matches the name of an operating system or an architecture.
var isToken = regexp.MustCompile(`^[a-z0-9_]{0,32}$`)

// whole checks a sysinfo whose fields were cut, and cuts its lists until all of it is small enough.
func whole(s *serverv1.Sysinfo) error {
	if s == nil {
		return nil
	}
	if !isToken.MatchString(s.GetPlatform().GetOs()) || !isToken.MatchString(s.GetPlatform().GetArch()) {
		return fault.New(fault.Invalid, "a sysinfo of the platform %.40q %.40q", s.Platform.Os, s.Platform.Arch)
	}
	if s.Processors > Processors || s.MemoryBytes > Memory {
		return fault.New(fault.Invalid, "a sysinfo with %d processors and %d bytes of memory",
			s.Processors, s.MemoryBytes)
	}
	for _, d := range s.Disks {
		if d.SizeBytes > Memory {
			return fault.New(fault.Invalid, "a sysinfo with a disk of %d bytes", d.SizeBytes)
		}
	}
	s.DisksMore, s.AddressesMore = min(s.DisksMore, More), min(s.AddressesMore, More)
	for proto.Size(s) > SysinfoBytes {
		if n := len(s.Disks) - 1; n >= len(s.Addresses) {
			s.Disks, s.DisksMore = s.Disks[:n], min(s.DisksMore+1, More)
		} else {
			s.Addresses, s.AddressesMore = s.Addresses[:len(s.Addresses)-1], min(s.AddressesMore+1, More)
		}
	}
	return nil
}

// cut cuts the fields of a message and of all messages in it.
func cut(m protoreflect.Message) (err error) {
	if !m.IsValid() {
		return nil
	}
	if len(m.GetUnknown()) > 0 {
		m.SetUnknown(nil)
	}
	if at, ok := m.Interface().(*timestamppb.Timestamp); ok && at.CheckValid() != nil {
		return fault.New(fault.Invalid, "%v", at.CheckValid())
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case !m.Has(f):
		case f.IsMap():
			err = fault.New(fault.Invalid, "%s is a map, which has no limit", f.FullName())
		case f.IsList():
			err = cutList(m, f, m.Get(f).List())
		default:
			err = cutOne(f, m.Get(f), func(v protoreflect.Value) { m.Set(f, v) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cutList cuts a list before it looks at what is left of it.
func cutList(m protoreflect.Message, f protoreflect.FieldDescriptor, l protoreflect.List) error {
	r := table[f.FullName()]
	most := r.most
	if most == 0 {
		most = List
	}
	if over := l.Len() - most; over > 0 {
		if r.count == "" {
			return fault.New(fault.Invalid, "%s lists %d; %d are the most", f.FullName(), l.Len(), most)
		}
		count := m.Descriptor().Fields().ByName(r.count)
		more := min(m.Get(count).Uint()+uint64(over), More)
		m.Set(count, protoreflect.ValueOfUint32(uint32(more)))
		l.Truncate(most)
	}
	for i := range l.Len() {
		if err := cutOne(f, l.Get(i), func(v protoreflect.Value) { l.Set(i, v) }); err != nil {
			return err
		}
	}
	return nil
}

// cutOne cuts one value; set replaces it.
func cutOne(f protoreflect.FieldDescriptor, v protoreflect.Value, set func(protoreflect.Value)) error {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return cut(v.Message())
	case protoreflect.BytesKind:
		if len(v.Bytes()) > Bytes {
			return fault.New(fault.Invalid, "%s has %d bytes; %d are the most", f.FullName(), len(v.Bytes()), Bytes)
		}
	case protoreflect.StringKind:
		if most := mostOf(f); len(v.String()) > most {
			set(protoreflect.ValueOfString(Cut(v.String(), most)))
		}
	}
	return nil
}

// mostOf returns the limit of a text. The default is also that of the texts in a list.
func mostOf(f protoreflect.FieldDescriptor) int {
	if r := table[f.FullName()]; r.most > 0 && !f.IsList() {
		return r.most
	}
	return Text
}

// marker ends a text that was cut.
const marker = "…"

// Cut cuts a text to at most bytes, including the three of its marker.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := max(0, most-len(marker))
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + marker[:min(len(marker), most)]
}
