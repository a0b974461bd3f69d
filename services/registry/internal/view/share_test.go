package view

import (
	"testing"
	"time"
	"unsafe"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Labels of two servers are one map until one of them changes.
func TestServersShareEqualValuesAndKeepTheirOwn(t *testing.T) {
	v := New()
	apply := func(id string, rack, kernel string, sequence uint64) {
		facts := []ledger.Fact{
			{Body: &serverv1.Invited{Name: id, Cell: "main", Labels: map[string]string{"rack": rack}}},
			{Body: &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{
				Kernel: string([]byte(kernel)), Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"},
				Disks: []*serverv1.Disk{{Mount: "/", SizeBytes: 1}},
			}}},
		}
		for n, f := range facts {
			f.Noun, f.Key, f.At, f.Sequence = ledger.Server, id, time.Unix(9, 0), sequence+uint64(n)
			if !v.Apply(f) {
				t.Fatalf("%s does not fit", f.Name())
			}
		}
	}
	apply("s1", "r1", "6.12", 1)
	apply("s2", "r1", "6.12", 3)
	one, two := row(v.servers, "s1"), row(v.servers, "s2")
	if unsafe.StringData(one.Sysinfo.Kernel) != unsafe.StringData(two.Sysinfo.Kernel) ||
		one.Sysinfo.Platform != two.Sysinfo.Platform || one.Sysinfo.Disks[0] != two.Sysinfo.Disks[0] {
		t.Error("equal sysinfo is there twice")
	}
	v.Apply(ledger.Fact{
		Noun: ledger.Server, Key: "s2", At: time.Unix(10, 0), Sequence: 5,
		Body: &serverv1.Changed{Labels: map[string]string{"rack": "r2"}},
	})
	if one.Labels["rack"] != "r1" || row(v.servers, "s2").Labels["rack"] != "r2" {
		t.Errorf("labels %v and %v", one.Labels, two.Labels)
	}
}

// A server keeps the same few versions as the others, for each of its agents.
func TestInstancesShareTheVersionsThatServersKeep(t *testing.T) {
	v := New()
	sequence := uint64(0)
	for _, key := range []string{"s1.a", "s2.a"} {
		for _, body := range []proto.Message{
			&instancev1.Wanted{InstanceId: key, Generation: 1, Image: &imagev1.Ref{Id: "i2", Version: "2"}},
			&instancev1.Observed{InstanceId: key, Image: &imagev1.Ref{Id: "i2", Version: "2"}, Kept: []*imagev1.Kept{
				{Image: &imagev1.Ref{Id: "i1", Version: "1"}, Since: timestamppb.New(time.Unix(8, 0))},
			}},
		} {
			sequence++
			f := ledger.Fact{Noun: ledger.Instance, Key: key, At: time.Unix(9, 0), Sequence: sequence, Body: body}
			if !v.Apply(f) {
				t.Fatalf("%s does not fit", f.Name())
			}
		}
	}
	one, two := row(v.instances, "s1.a").Kept, row(v.instances, "s2.a").Kept
	if len(one) != 1 || len(two) != 1 || one[0].Image.GetId() != "i1" || one[0].Since.AsTime().Unix() != 8 {
		t.Fatalf("kept %v and %v", one, two)
	}
	if one[0].Image != two[0].Image || one[0].Since != two[0].Since {
		t.Error("an equal image, or its time, is there twice")
	}
}
