package systemd

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// verifyWithin bounds how long systemd may take to apply the settings to a new process.
const verifyWithin = 5 * time.Second

// verify reads from the kernel whether a service's process has the limits and the sandbox of its spec. systemd skips
// some of them where the kernel or a container does not allow them.
func verify(s state, spec supervise.Spec) error {
	var missing error
	err := eventually(verifyWithin, func() (bool, error) {
		missing = errors.Join(verifyLimits(s.pid, spec.Limits), verifySandbox(s.pid, spec.Sandbox))
		_, gone := os.Stat(proctree.Path(s.pid, "status"))
		return missing == nil || gone != nil, nil
	})
	if err != nil {
		return refuse("systemd does not enforce it here: %s", strings.ReplaceAll(missing.Error(), "\n", "; "))
	}
	return nil // also when the process has ended
}

func verifyLimits(pid int, l *imagev1.Limits) (err error) {
	check := func(key, have string, e error, ok func(n uint64) bool) {
		n, bad := strconv.ParseUint(have, 10, 64)
		if e == nil && (bad != nil || n == 0 || !ok(n)) {
			e = fmt.Errorf("%s is %q", key, have)
		}
		err = errors.Join(err, e)
	}
	if want := l.GetMemoryBytes(); want > 0 {
		have, e := groupValue(pid, "memory", "memory.limit_in_bytes", "memory.max")
		check("limits.memory", have, e, func(n uint64) bool { return n <= want }) // whole pages
	}
	if want := uint64(l.GetTasks()); want > 0 {
		have, e := groupValue(pid, "pids", "pids.max", "pids.max")
		check("limits.tasks", have, e, func(n uint64) bool { return n == want })
	}
	if want := uint64(l.GetCpuPercent()); want > 0 {
		quota, period, e := processorShare(pid)
		check("limits.cpu", quota, e, func(n uint64) bool { return n*100 <= period*(want+1) })
	}
	if want := l.GetOpenFiles(); want > 0 {
		data, e := os.ReadFile(proctree.Path(pid, "limits"))
		_, line, _ := strings.Cut(string(data), "Max open files")
		for _, have := range append(strings.Fields(line), "", "")[:2] { // soft and hard
			check("limits.open_files", have, e, func(n uint64) bool { return n == want })
		}
	}
	return err
}

// processorShare returns the processor time that a process may use in each period.
func processorShare(pid int) (quota string, period uint64, err error) {
	both, err := groupValue(pid, "cpu", "cpu.cfs_quota_us", "cpu.max")
	quota, of, unified := strings.Cut(both, " ")
	if err == nil && !unified {
		of, err = groupValue(pid, "cpu", "cpu.cfs_period_us", "")
	}
	if err == nil {
		period, err = strconv.ParseUint(of, 10, 64)
	}
	return quota, period, err
}

// groupValue reads a file of a process's control group, in the controller's own hierarchy or in the unified one
// (cgroups(7)).
func groupValue(pid int, controller, own, unified string) (string, error) {
	data, err := os.ReadFile(proctree.Path(pid, "cgroup"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) < 3 {
			continue
		}
		path := filepath.Join("/sys/fs/cgroup", controller, part[2], own)
		if part[0] == "0" && unified != "" {
			path = filepath.Join("/sys/fs/cgroup", part[2], unified)
		} else if !slices.Contains(strings.Split(part[1], ","), controller) {
			continue
		}
		if value, err := os.ReadFile(path); err == nil {
			return strings.TrimSpace(string(value)), nil
		}
	}
	return "", fmt.Errorf("the control group of process %d has no controller %s", pid, controller)
}

func verifySandbox(pid int, b *imagev1.Sandbox) error {
	status, err := proctree.Status(pid)
	if b.GetNoNewPrivileges() && status["NoNewPrivs"] != "1" {
		err = errors.Join(err, errors.New("sandbox.no_new_privileges does not hold"))
	}
	if b.GetUser() != "" {
		u, e := user.Lookup(b.GetUser())
		if e != nil {
			return errors.Join(err, e)
		}
		for _, id := range strings.Fields(status["Uid"]) {
			if id != u.Uid {
				err = errors.Join(err, fmt.Errorf("sandbox.user is %s", id))
			}
		}
	}
	if b.GetBoundCapabilities() {
		have, e := strconv.ParseUint(status["CapBnd"], 16, 64)
		if e != nil || have&^capabilityBits(b.GetCapabilities()) != 0 {
			err = errors.Join(err, fmt.Errorf("sandbox.capabilities are %q", status["CapBnd"]))
		}
	}
	return errors.Join(err, verifyMounts(pid, b))
}

// verifyMounts checks the process's view of the file system.
func verifyMounts(pid int, b *imagev1.Sandbox) error {
	f, err := os.Open(proctree.Path(pid, "mountinfo"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	all, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return err
	}
	at := map[string]*mountinfo.Info{"/": {}, "/tmp": {}} // by mount point; the last one is on top
	for _, m := range all {
		at[m.Mountpoint] = m
	}
	if b.GetReadOnlySystem() && !slices.Contains(strings.Split(at["/"].Options, ","), "ro") {
		err = errors.Join(err, errors.New("sandbox.read_only_system does not hold"))
	}
	if b.GetPrivateTmp() && !strings.Contains(at["/tmp"].Root, "systemd-private-") {
		err = errors.Join(err, errors.New("sandbox.private_tmp does not hold"))
	}
	if b.GetNoHomes() {
		for _, home := range homes {
			info, e := os.Lstat(home)
			if e == nil && info.IsDir() && at[home] == nil {
				err = errors.Join(err, fmt.Errorf("sandbox.no_homes does not hold: %s is visible", home))
			}
		}
	}
	return err
}

// capabilities are the names of capabilities(7) without CAP_, in the order of their numbers.
var capabilities = strings.Fields(`
	CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE
	SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE
	AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF
	CHECKPOINT_RESTORE`)

// capability returns the number of a capability; negative for an unknown name.
func capability(name string) int {
	short, ok := strings.CutPrefix(name, "CAP_")
	if !ok {
		return -1
	}
	return slices.Index(capabilities, short)
}

// capabilityBits returns the set of the known capabilities among some names.
func capabilityBits(names []string) (bits uint64) {
	for _, n := range names {
		if c := capability(n); c >= 0 {
			bits |= 1 << c
		}
	}
	return bits
}

// checkCapabilities returns an error for the first unknown name.
func checkCapabilities(names []string) error {
	for _, n := range names {
		if capability(n) < 0 {
			return fmt.Errorf("%q is not a capability", n)
		}
	}
	return nil
}
