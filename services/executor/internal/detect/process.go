package detect

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// process is what the kernel says of a process.
type process struct {
	pid, uid int
	start    uint64 // in clock ticks since the boot
	exe      string
	args     []string
	unit     string // of systemd, by its control group
	sockets  []string
}

// table returns the processes of the server, read once in a scan. Kernel threads are not among them.
func (s *Scan) table(ctx context.Context) (map[int]*process, error) {
	s.once.Do(func() { s.processes, s.failed = readAll(ctx) })
	return s.processes, s.failed
}

func readAll(ctx context.Context) (map[int]*process, error) {
	pids, err := proctree.All()
	out := map[int]*process{}
	those := newSockets()
	for _, pid := range pids {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if p := read(pid); p != nil {
			p.sockets = those.of(pid)
			out[pid] = p
		}
	}
	return out, err
}

// read returns a process, or nil when it is gone or a thread of the kernel.
func read(pid int) *process {
	start, ok := proctree.StartTime(pid)
	if !ok {
		return nil
	}
	args := head(proctree.Path(pid, "cmdline"), maxArgsRead) // empty for a thread of the kernel
	exe, err := os.Readlink(proctree.Path(pid, "exe"))
	if err != nil && len(args) == 0 {
		return nil
	}
	p := &process{pid: pid, start: start, exe: strings.TrimSuffix(exe, " (deleted)"), unit: unitOf(pid)}
	for a := range bytes.SplitSeq(bytes.TrimRight(args, "\x00"), []byte{0}) {
		if len(p.args) > maxArgs { // more than are shown: any user can make thousands
			break
		}
		p.args = append(p.args, string(a))
	}
	p.uid = ownerOf(pid)
	return p
}

// maxArgsRead is how much of a process's arguments is read.
const maxArgsRead = 16 << 10

// head returns the beginning of a file that the kernel makes, of at most most bytes; nothing when it cannot be read.
func head(path string, most int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	data, _ := io.ReadAll(io.LimitReader(f, most)) // what was read before an error counts
	return data
}

// ownerOf returns the effective user of a process.
func ownerOf(pid int) (uid int) {
	status, _ := proctree.Status(pid) // empty for one that is gone
	if ids := strings.Fields(status["Uid"]); len(ids) > 1 {
		uid, _ = strconv.Atoi(ids[1])
	}
	return uid
}

// unitOf returns the unit of systemd whose control group a process is in, or "".
func unitOf(pid int) string {
	data, _ := os.ReadFile(proctree.Path(pid, "cgroup"))
	return unitIn(string(data))
}

// ServiceOf returns the service or scope of systemd that a process belongs to; empty for none.
func ServiceOf(pid int) string { return unitOf(pid) }

// unitIn returns the outermost service or scope in the content of a cgroup file: in the unified hierarchy, or in
// systemd's own where there is no unified one (cgroups(7)). That is the unit of this server's systemd. Those below it
// belong to the systemd of a user or of a container, and may have the name of another unit here.
func unitIn(groups string) (unit string) {
	for line := range strings.Lines(groups) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) < 3 || part[1] != "" && part[1] != "name=systemd" {
			continue
		}
		for part := range strings.SplitSeq(part[2], "/") {
			if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
				unit = part
				break
			}
		}
	}
	return unit
}

// ByUserManager reports whether a unit is the systemd of a user, which runs and restarts units of its own.
func ByUserManager(unit string) bool {
	return strings.HasPrefix(unit, "user@") && strings.HasSuffix(unit, ".service")
}

// name returns the name of a process's program.
func (p *process) name() string {
	if p.exe != "" {
		return filepath.Base(p.exe)
	}
	return filepath.Base(p.args[0])
}

// describe writes what is known of a process into a candidate.
func (p *process) describe(c *serverv1.Candidate) {
	c.Pid, c.Exe, c.Args, c.Unit, c.Sockets = uint32(p.pid), p.exe, maskArgs(p.args), p.unit, slices.Clone(p.sockets)
	c.User = strconv.Itoa(p.uid)
	if u, err := user.LookupId(c.User); err == nil {
		c.User = u.Username
	}
	c.StartedAt = timestamppb.New(startedAt(p.start))
}

// startedAt returns the time of a start, to the second: the clock is corrected now and then.
func startedAt(ticks uint64) time.Time {
	return bootTime().Add(time.Duration(ticks) * time.Second / 100).Truncate(time.Second)
}

func bootTime() time.Time {
	data, _ := os.ReadFile("/proc/stat")
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "btime "); ok {
			at, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return time.Unix(at, 0)
		}
	}
	return time.Time{}
}

// ours reports whether a process is Garrison's.
func (s *Scan) ours(p *process) bool {
	switch {
	case p.pid == os.Getpid() || s.Ours != nil && s.Ours(p.pid):
		return true
	case s.Home != "" && strings.HasPrefix(p.exe, s.Home+"/"):
		return true
	}
	return s.Units != "" && strings.HasPrefix(p.unit, s.Units)
}

// processes finds the processes that listen; with All every one.
type processes struct{}

// Name implements Detector.
func (processes) Name() string { return "process" }

// Detect implements Detector.
func (processes) Detect(ctx context.Context, s *Scan) (out []*serverv1.Candidate, err error) {
	table, err := s.table(ctx)
	for _, p := range table {
		if s.ours(p) || !s.All && (len(p.sockets) == 0 || isBaseUnit(p.unit) && !ByUserManager(p.unit)) {
			continue
		}
		c := &serverv1.Candidate{
			Id: ProcessID(p.pid, p.start), Kind: serverv1.CandidateKind_CANDIDATE_KIND_PROCESS, Name: p.name(),
		}
		p.describe(c)
		out = append(out, c)
	}
	s.own(ctx, out, func(c *serverv1.Candidate) string { return c.Exe })
	return out, err
}

// Process is a process that a candidate's id names.
type Process struct {
	Pid       int
	Service   string // of systemd, when the candidate is that
	Start     uint64 // in clock ticks since the boot
	StartedAt time.Time
	Exe, Unit string
	Sockets   []string
}

// Find returns the process that a candidate's id names, if it still runs. mainOf returns the main process of a service;
// nil where there are none.
func Find(id string, mainOf func(service string) int) (p Process, ok bool) {
	pid, start, ok := parseProcessID(id)
	service, isUnit := strings.CutPrefix(id, "unit/")
	if isUnit && mainOf != nil && strings.HasSuffix(service, ".service") {
		pid = mainOf(service)
		start, ok = proctree.StartTime(pid)
		ok = ok && pid > 1
	}
	if !ok {
		return p, false
	}
	is := read(pid)
	if is == nil || is.start != start {
		return p, false
	}
	p = Process{
		Pid: pid, Start: start, StartedAt: startedAt(start), Exe: is.exe, Unit: is.unit,
		Sockets: newSockets().of(pid),
	}
	if isUnit {
		p.Service = service
	}
	return p, true
}

// parseProcessID reads what ProcessID writes.
func parseProcessID(id string) (pid int, start uint64, ok bool) {
	rest, ok := strings.CutPrefix(id, "process/")
	first, second, cut := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(first)
	start, err2 := strconv.ParseUint(second, 10, 64)
	return pid, start, ok && cut && err == nil && err2 == nil && pid > 1 && ProcessID(pid, start) == id
}
