package sysinfo

import (
	"context"
	"math/bits"
	"sync"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/space"
)

// The smallest and the largest size class.
const (
	leastRoom = 1 << 20
	mostRoom  = 64 << 30
)

// Room returns a size class for the free space of a file system: it changes rarely, so that two readings of a machine
// that only works are equal. before is the class of the reading before, 0 without one. The free space is less than two
// and a half times the class, unless that is the largest.
func Room(free, before uint64) uint64 {
	if before > 0 && free >= before-before/4 && (before == mostRoom || free < 2*before+before/2) {
		return before
	}
	if free < 2*leastRoom {
		return leastRoom
	}
	return min(mostRoom, uint64(1)<<(bits.Len64(free)-1))
}

// ReadAt returns a function that reads the machine's properties and the room where a directory is, with what kept
// returns: bytes that give way to a change.
func ReadAt(dir string, kept func() uint64) func(context.Context) *serverv1.Sysinfo {
	var mu sync.Mutex
	var before uint64
	return func(ctx context.Context) *serverv1.Sysinfo {
		s := Read(ctx)
		free := sizeOf(ctx, "free "+dir, func(string) uint64 {
			f, err := space.Look(dir)
			if err != nil {
				return 0
			}
			return max(1, f.Bytes)
		})
		mu.Lock()
		defer mu.Unlock()
		if free > 0 {
			before = Room(free+kept(), before)
		}
		s.RoomBytes = before
		return s
	}
}
