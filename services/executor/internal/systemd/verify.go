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

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// verifyWithin is how long systemd may take to put its settings on a process that it has made.
const verifyWithin = 5 * time.Second

// verify reads from the kernel whether a service's process is bounded and confined as was
// asked for. systemd goes on without some of it where the kernel or a container does not let it.
func verify(s state, spec supervise.Spec) error {
	var missing error
	err := eventually(verifyWithin, func() (bool, error) {
		missing = errors.Join(verifyLimits(s, spec.Limits), verifySandbox(s.pid, spec.Sandbox))
		_, gone := os.Stat(proc(s.pid, "status"))
		return missing == nil || gone != nil, nil
	})
	if err != nil {
		return refuse("systemd does not keep it here: %s", strings.ReplaceAll(missing.Error(), "\n", "; "))
	}
	return nil // also when it has ended: then there is nothing to confine
}

func proc(pid int, file string) string { return filepath.Join("/proc", strconv.Itoa(pid), file) }

func verifyLimits(s state, l *imagev1.Limits) (err error) {
	if want := l.GetMemoryBytes(); want > 0 {
		have, e := groupValue(s.pid, "memory", "memory.limit_in_bytes", "memory.max")
		err = errors.Join(err, e, holds("limits.memory", have, func(n uint64) bool { return n <= want })) // whole pages
	}
	if want := uint64(l.GetTasks()); want > 0 {
		have, e := groupValue(s.pid, "pids", "pids.max", "pids.max")
		err = errors.Join(err, e, holds("limits.tasks", have, func(n uint64) bool { return n == want }))
	}
	if want := uint64(l.GetCpuPercent()); want > 0 {
		err = errors.Join(err, verifyProcessor(s.pid, want))
	}
	if want := l.GetOpenFiles(); want > 0 {
		data, e := os.ReadFile(proc(s.pid, "limits"))
		_, line, _ := strings.Cut(string(data), "Max open files")
		have := slices.Concat(strings.Fields(line), []string{"", ""})
		is := func(n uint64) bool { return n == want }
		err = errors.Join(err, e, holds("limits.open_files", have[0], is), holds("limits.open_files", have[1], is))
	}
	return err
}

// verifyProcessor looks at the share of a processor, which is a quota for each period.
func verifyProcessor(pid int, percent uint64) error {
	both, err := groupValue(pid, "cpu", "cpu.cfs_quota_us", "cpu.max")
	quota, period, unified := strings.Cut(both, " ")
	if err == nil && !unified {
		period, err = groupValue(pid, "cpu", "cpu.cfs_period_us", "")
	}
	if err != nil {
		return err
	}
	of, err := strconv.ParseUint(period, 10, 64)
	return errors.Join(err, holds("limits.cpu", quota, func(n uint64) bool { return n*100 <= of*(percent+1) }))
}

func holds(key, have string, ok func(uint64) bool) error {
	if n, err := strconv.ParseUint(have, 10, 64); err != nil || n == 0 || !ok(n) {
		return fmt.Errorf("%s is %q", key, have)
	}
	return nil
}

// groupValue reads a file of a process's control group, of the controller's own hierarchy
// or of the one that all share (cgroups(7)).
func groupValue(pid int, controller, own, unified string) (string, error) {
	data, err := os.ReadFile(proc(pid, "cgroup"))
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

func verifySandbox(pid int, b *imagev1.Sandbox) (err error) {
	status, e := statusOf(pid)
	err = errors.Join(err, e)
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

func statusOf(pid int) (map[string]string, error) {
	data, err := os.ReadFile(proc(pid, "status"))
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		out[name] = strings.TrimSpace(value)
	}
	return out, err
}

// verifyMounts looks at what the process sees of the file system.
func verifyMounts(pid int, b *imagev1.Sandbox) (err error) {
	data, err := os.ReadFile(proc(pid, "mountinfo"))
	if err != nil {
		return err
	}
	root, options := map[string]string{}, map[string]string{} // by mount point, the last one on top
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 5 { // proc(5)
			root[f[4]], options[f[4]] = f[3], f[5]
		}
	}
	if b.GetReadOnlySystem() && !slices.Contains(strings.Split(options["/"], ","), "ro") {
		err = errors.Join(err, errors.New("sandbox.read_only_system does not hold"))
	}
	if b.GetPrivateTmp() && !strings.Contains(root["/tmp"], "systemd-private-") {
		err = errors.Join(err, errors.New("sandbox.private_tmp does not hold"))
	}
	if b.GetNoHomes() {
		for _, home := range homes {
			info, e := os.Lstat(home)
			if e == nil && info.IsDir() && root[home] == "" {
				err = errors.Join(err, fmt.Errorf("sandbox.no_homes does not hold: %s is seen", home))
			}
		}
	}
	return err
}
