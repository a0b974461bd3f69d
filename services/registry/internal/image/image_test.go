package image

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestAnImageThatCertainlyDoesNotFitInTheFreeSpaceIsLeftOut(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		need, room uint64
		want       string
	}{
		{need: 100 * mib, room: 0},       // not known
		{need: 39 * mib, room: 16 * mib}, // up to 40 MiB may be free
		{need: 80 << 30, room: 64 << 30}, // the largest class has no upper end
		{need: 40 * mib, room: 16 * mib, want: code.NoSpace},
	} {
		m := &imagev1.Manifest{Agent: "web", Blob: &imagev1.Blob{UnpackedSizeBytes: c.need}}
		s := &serverv1.Server{Name: "one", Sysinfo: &serverv1.Sysinfo{RoomBytes: c.room}}
		if have := Fits(shelf{}, m, s, nil); have.GetCode() != c.want {
			t.Errorf("%d bytes into room for %d: %v; want %q", c.need, c.room, have, c.want)
		}
	}
}

func TestAnImageThatNeedsAnotherMachineNamesTheServerWhatItWantedAndWhatItFound(t *testing.T) {
	old := false
	s := &serverv1.Server{Name: "one", Sysinfo: &serverv1.Sysinfo{Kernel: "5.4.0-42-generic", CgroupV2: &old}}
	m := &imagev1.Manifest{
		Agent: "web", Version: "2.0.0", Machine: &imagev1.Machine{Kernel: "5.10", CgroupV2: true},
	}
	have := Fits(shelf{}, m, s, nil)
	const want = `web 2.0.0 cannot run on server "one": it needs kernel 5.10 or newer, and has kernel ` +
		`5.4.0-42-generic; it needs control groups of version 2 alone, and has version 1`
	if have.GetCode() != code.UnfitMachine || have.GetMessage() != want {
		t.Errorf("%v\nwant %s", have, want)
	}
	m.Machine.DiskBytes, s.Sysinfo.RoomBytes = 2<<40, 1<<30
	const disk = "; it needs 2 TiB of disk, and has less than 2.5 GiB free"
	if have := Fits(shelf{}, m, s, nil); have.GetCode() != code.UnfitMachine || have.GetMessage() != want+disk {
		t.Errorf("%v\nwant %s%s", have, want, disk)
	}
	m.Machine, s.Sysinfo.RoomBytes = &imagev1.Machine{DiskBytes: 3 << 30}, 1<<30
	if have := Fits(shelf{}, m, s, nil); have.GetCode() != code.NoSpace {
		t.Errorf("%v, want %s", have, code.NoSpace)
	}
}
