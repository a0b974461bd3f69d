// Package sysinfo reads the machine's hardware, system and addresses as garrison.server.v1.Sysinfo.
//
// Guarantees:
//
//  1. Two readings of an unchanged machine are equal: they hold no load or usage, and lists are sorted.
//  2. An unreadable value is left out; it is never an error.
//  3. A reading ends within five seconds, also when a file system hangs.
package sysinfo

import (
	"context"
	"math/bits"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/version"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
	"github.com/garrison-fleet/garrison/services/executor/internal/space"
)

// within bounds a reading: a hanging file system must not hang the executor.
const within = 5 * time.Second

// sizes holds the running reads of file systems' sizes. A hanging system call cannot be cancelled, so each file system
// has at most one, and later readings wait for it.
var sizes singleflight.Group

// Platform returns the platform that this executor was built for; its agents must be built for the same.
func Platform() *serverv1.Platform {
	return &serverv1.Platform{Os: runtime.GOOS, Arch: runtime.GOARCH}
}

// Read reads the machine's properties.
func Read(ctx context.Context) *serverv1.Sysinfo {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	s := &serverv1.Sysinfo{
		Platform:        Platform(),
		ExecutorVersion: version.Version,
		Addresses:       addresses(),
		Disks:           disks(ctx),
	}
	s.Hostname, _ = os.Hostname()
	s.Kernel, _ = host.KernelVersionWithContext(ctx)
	s.Distribution = distribution(ctx)
	if n, err := cpu.CountsWithContext(ctx, true); err == nil {
		s.Processors = uint32(n)
	}
	if info, err := cpu.InfoWithContext(ctx); err == nil && len(info) > 0 {
		s.ProcessorModel = strings.ToValidUTF8(info[0].ModelName, "?")
	}
	if m, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		s.MemoryBytes = m.Total
	}
	s.CgroupV2 = cgroupV2("/sys/fs/cgroup")
	if at, err := host.BootTimeWithContext(ctx); err == nil {
		s.BootedAt = timestamppb.New(time.Unix(int64(at), 0))
	}
	return s
}

// cgroupV2 reports whether control groups are of version 2 alone; nil when they are not mounted there.
func cgroupV2(mount string) *bool {
	entries, _ := os.ReadDir(mount)
	if len(entries) == 0 {
		return nil
	}
	only := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "cgroup.controllers" })
	return &only
}

// BootID returns the identity of the machine's current boot.
func BootID() string {
	if id := proctree.BootID(); id != "" {
		return id
	}
	at, _ := host.BootTime()
	return ident.From("boot", time.Unix(int64(at), 0).UTC().String())
}

func disks(ctx context.Context) []*serverv1.Disk {
	parts, err := disk.PartitionsWithContext(ctx, false)
	if err != nil {
		return nil
	}
	var out []*serverv1.Disk
	for _, p := range parts {
		// A loop device is a file of another disk, whose size counts already.
		if slices.Contains(p.Opts, "bind") || strings.HasPrefix(p.Device, "/dev/loop") {
			continue
		}
		if size := sizeOf(ctx, p.Mountpoint, usage); size > 0 {
			out = append(out, &serverv1.Disk{Mount: p.Mountpoint, Kind: p.Fstype, SizeBytes: size})
		}
	}
	slices.SortFunc(out, func(a, b *serverv1.Disk) int { return strings.Compare(a.Mount, b.Mount) })
	return slices.CompactFunc(out, func(a, b *serverv1.Disk) bool { return a.Mount == b.Mount })
}

// sizeOf returns a file system's size, or 0 when it cannot be read before ctx is done.
func sizeOf(ctx context.Context, mount string, read func(mount string) uint64) uint64 {
	select {
	case r := <-sizes.DoChan(mount, func() (any, error) { return read(mount), nil }):
		return r.Val.(uint64)
	case <-ctx.Done():
		return 0
	}
}

func usage(mount string) uint64 {
	u, err := disk.Usage(mount)
	if err != nil {
		return 0
	}
	return u.Total
}

// addresses lists the addresses of interfaces that are up, without loopback and link-local ones.
func addresses() []string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var out []string
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		found, _ := i.Addrs()
		for _, a := range found {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
				out = append(out, n.IP.String())
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Hostname returns the machine's host name, or "" when it has none.
func Hostname() string {
	name, _ := os.Hostname()
	return name
}

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
