package bounds

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fault"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

var long = strings.Repeat("é", 100_000)

func TestTheTableNamesFieldsOfTheContract(t *testing.T) {
	for name, r := range table {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f := d.(protoreflect.FieldDescriptor)
		if r.count != "" && f.ContainingMessage().Fields().ByName(r.count).Kind() != protoreflect.Uint32Kind {
			t.Errorf("%s is counted by %s, which is no number", name, r.count)
		}
	}
}

func TestATextIsCutAtTheBorderOfACharacterAndSaysSo(t *testing.T) {
	for most, want := range map[int]string{3: "…", 4: "a…", 5: "a…", 6: "aé…", 7: "aéb…", 9: "aéb…", 10: "aéb€€"} {
		if got := Cut("aéb€€", most); got != want {
			t.Errorf("cut to %d bytes: %q, want %q", most, got, want)
		}
	}
}

// unknown returns a field that the contract does not have.
func unknown(size int) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 3000, protowire.BytesType), make([]byte, size))
}

func sysinfo(texts string, elements int) *serverv1.Sysinfo {
	s := &serverv1.Sysinfo{
		Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, Hostname: texts, Kernel: texts, Distribution: texts,
		ProcessorModel: texts, ExecutorVersion: texts,
	}
	for n := range elements {
		s.Disks = append(s.Disks, &serverv1.Disk{Mount: fmt.Sprint(n) + texts, Kind: texts})
		s.Addresses = append(s.Addresses, fmt.Sprint(n)+texts)
	}
	s.ProtoReflect().SetUnknown(unknown(len(texts)))
	return s
}

func report(s *serverv1.Sysinfo) *reportv1.Report {
	return &reportv1.Report{
		BootId: long, JournalId: long, At: timestamppb.Now(),
		Body: &reportv1.Report_Sysinfo{Sysinfo: &reportv1.SysinfoReport{Sysinfo: s, TaskId: long}},
	}
}

func TestNothingIsLargerThanTheTableAllows(t *testing.T) {
	found := &reportv1.Found{
		Agent: long, InstanceId: long, Reason: long, Path: long, OtherServerId: long, OtherRoot: long,
		Image: &imagev1.Ref{Id: long, Version: long, Digest: make([]byte, 32)},
	}
	agents := &reportv1.Report{Body: &reportv1.Report_Agents{Agents: &reportv1.AgentsReport{
		TaskId: long, Agents: []*reportv1.Found{found},
	}}}
	beat := &reportv1.Beat{
		ServerId: long, BootId: long, ExecutorVersion: long, Code: long, Reason: long, SessionId: long, Hostname: long,
	}
	guest := &registryv1.EnrolRequest{ServerId: long, Secret: long, PublicKey: long, Sysinfo: sysinfo(long, 1000)}
	reported := report(sysinfo(long, 1000))
	for name, c := range map[string]struct {
		m    proto.Message
		err  error
		most int
	}{
		"beat":    {beat, Beat(beat), 700},
		"agents":  {agents, Report(agents), 2600},
		"sysinfo": {reported, Report(reported), SysinfoBytes + 300},
		"guest":   {guest, Enrolment(guest), SysinfoBytes + 700},
	} {
		if size := proto.Size(c.m); c.err != nil || size > c.most {
			t.Errorf("%s has %d bytes, error %v; want %d at most", name, size, c.err, c.most)
		}
	}
	if !proto.Equal(guest.Sysinfo, reported.GetSysinfo().Sysinfo) {
		t.Error("an enrolment and a report cut the same sysinfo to different ones")
	}
	s := reported.GetSysinfo().Sysinfo
	if len(s.Disks)+int(s.DisksMore) != 1000 || len(s.Addresses)+int(s.AddressesMore) != 1000 {
		t.Errorf("%d disks and %d more, %d addresses and %d more; want 1,000 each",
			len(s.Disks), s.DisksMore, len(s.Addresses), s.AddressesMore)
	}
	again := proto.CloneOf(reported)
	if err := Report(again); err != nil || !proto.Equal(again, reported) {
		t.Errorf("cut again it is another one (error %v)", err)
	}
}

func TestWhatIsSmallEnoughIsNotTouched(t *testing.T) {
	s := sysinfo("short", 3)
	s.ProtoReflect().SetUnknown(nil)
	r := report(s)
	r.BootId, r.JournalId, r.GetSysinfo().TaskId = "boot", "journal", "task"
	before := proto.CloneOf(r)
	if err := Report(r); err != nil || !proto.Equal(before, r) {
		t.Errorf("%v, error %v", r, err)
	}
	if err := Report(&reportv1.Report{}); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	linux := func(change func(*serverv1.Sysinfo)) *reportv1.Report {
		s := sysinfo("", 0)
		change(s)
		return &reportv1.Report{Body: &reportv1.Report_Sysinfo{Sysinfo: &reportv1.SysinfoReport{Sysinfo: s}}}
	}
	agents := func(a ...*reportv1.Found) *reportv1.Report {
		return &reportv1.Report{Body: &reportv1.Report_Agents{Agents: &reportv1.AgentsReport{Agents: a}}}
	}
	for name, r := range map[string]*reportv1.Report{
		"a time that does not exist":    {At: &timestamppb.Timestamp{Seconds: 1 << 60}},
		"a platform that is a sentence": linux(func(s *serverv1.Sysinfo) { s.Platform.Os = "Linux, of course" }),
		"a billion processors":          linux(func(s *serverv1.Sysinfo) { s.Processors = 1 << 30 }),
		"an exabyte of memory":          linux(func(s *serverv1.Sysinfo) { s.MemoryBytes = 1 << 62 }),
		"an impossible disk": linux(func(s *serverv1.Sysinfo) {
			s.Disks = []*serverv1.Disk{{SizeBytes: 1 << 62}}
		}),
		"an overlong digest":                 agents(&reportv1.Found{Image: &imagev1.Ref{Digest: make([]byte, 65)}}),
		"more agents than a server can have": agents(make([]*reportv1.Found, 5000)...),
	} {
		if err := Report(r); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v; want a refusal", name, err)
		}
	}
}
