package sysinfo

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestRoomChangesOnlyWithMuchOfTheFreeSpace(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct{ free, before, want uint64 }{
		{5 * gib, 0, 4 * gib},
		{4 * gib, 4 * gib, 4 * gib},
		{3 * gib, 4 * gib, 4 * gib}, // three quarters of it
		{3*gib - 1, 4 * gib, 2 * gib},
		{9 * gib, 4 * gib, 4 * gib},
		{10 * gib, 4 * gib, 8 * gib},
		{0, 0, mib},
		{100, 8 * mib, mib},
		{900 * gib, 0, mostRoom},
		{400 * gib, mostRoom, mostRoom},
		{10 * gib, mostRoom, 8 * gib},
	} {
		if have := Room(c.free, c.before); have != c.want {
			t.Errorf("%d free, before %d: %d; want %d", c.free, c.before, have, c.want)
		}
	}
}

func TestTheRoomIsReadWhereADirectoryIs(t *testing.T) {
	s := ReadAt(t.TempDir(), func() uint64 { return 0 })(t.Context())
	if s.RoomBytes < leastRoom || s.RoomBytes > mostRoom {
		t.Errorf("room for %d bytes", s.RoomBytes)
	}
}

// Two readings of a machine that only works are equal, also when one could not look at the file system.
func TestTheRoomStaysWhenTheFileSystemCannotBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	read := ReadAt(dir, func() uint64 { return 0 })
	before := read(t.Context()).RoomBytes
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if after := read(t.Context()).RoomBytes; before == 0 || after != before {
		t.Errorf("room for %d bytes, then for %d; want the same", before, after)
	}
}

// The size of a file system is under way under the name of its directory.
func TestTheRoomIsNotTakenForASize(t *testing.T) {
	dir, answer := t.TempDir(), make(chan struct{})
	defer close(answer)
	sizes.DoChan(dir, func() (any, error) { <-answer; return uint64(1), nil })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if s := ReadAt(dir, func() uint64 { return 0 })(ctx); s.RoomBytes == 0 {
		t.Error("the room waited for the size")
	}
}
