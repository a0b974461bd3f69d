package detect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/bounds"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// The limits of the detectors that a server adds.
const (
	maxPrograms = 16
	maxPrinted  = 256 << 10
)

// program is a detector that an executable is: it prints JSON lines.
type program struct{ name, path string }

// programs returns the executables in a directory as detectors, and why others are none.
func programs(dir string) (out []Detector, refused []*serverv1.Detection) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = strictdir.Dir(dir)
	}
	if err != nil {
		return nil, []*serverv1.Detection{{Detector: filepath.Base(dir), Reason: clean(err.Error(), bounds.Text)}}
	}
	for n, e := range entries {
		p := program{e.Name(), filepath.Join(dir, e.Name())}
		err := p.check()
		if err == nil && n >= maxPrograms {
			err = fmt.Errorf("%d detectors are the most", maxPrograms)
		}
		if err != nil {
			refused = append(refused, &serverv1.Detection{
				Detector: clean(p.name, bounds.ID), Reason: clean(err.Error(), bounds.Text),
			})
			continue
		}
		out = append(out, p)
	}
	return out, refused
}

// check refuses a program that another user could change, or with the name of a built-in detector.
func (p program) check() error {
	if err := ident.CheckName("detector", p.name); err != nil {
		return err
	}
	for _, d := range Builtin() {
		if d.Name() == p.name {
			return fmt.Errorf("%s is the name of a built-in detector", p.name)
		}
	}
	if err := strictdir.File(p.path); err != nil {
		return err
	}
	if info, err := os.Stat(p.path); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not an executable file", p.path)
	}
	return nil
}

// Name implements Detector.
func (p program) Name() string { return p.name }

// line is one line that a detector prints.
type line struct {
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Pid     int      `json:"pid"`
	Unit    string   `json:"unit"`
	Path    string   `json:"path"`
	Package string   `json:"package"`
	State   string   `json:"state"`
	Files   []string `json:"files"`
}

var kinds = map[string]serverv1.CandidateKind{
	"process": serverv1.CandidateKind_CANDIDATE_KIND_PROCESS,
	"unit":    serverv1.CandidateKind_CANDIDATE_KIND_UNIT,
	"package": serverv1.CandidateKind_CANDIDATE_KIND_PACKAGE,
	"tree":    serverv1.CandidateKind_CANDIDATE_KIND_TREE,
}

// Detect implements Detector. Lines before one that is wrong count.
func (p program) Detect(ctx context.Context, s *Scan) (out []*serverv1.Candidate, err error) {
	printed, err := output(ctx, maxPrinted, p.path, "detect")
	if err != nil {
		return nil, err
	}
	table, err := s.table(ctx)
	in := json.NewDecoder(bytes.NewReader(printed))
	in.DisallowUnknownFields()
	for n := 1; ; n++ {
		var l line
		if failed := in.Decode(&l); failed == io.EOF {
			return out, err
		} else if failed != nil {
			return out, errors.Join(err, fmt.Errorf("entry %d: %w", n, failed))
		}
		c, failed := p.candidate(s, l, table)
		if failed != nil {
			return out, errors.Join(err, fmt.Errorf("entry %d: %w", n, failed))
		}
		if c != nil {
			out = append(out, c)
		}
	}
}

// candidate returns what a line describes; nil for what is Garrison's. What a process is comes from the kernel, not
// from the line.
func (p program) candidate(s *Scan, l line, table map[int]*process) (*serverv1.Candidate, error) {
	kind, ok := kinds[l.Kind]
	if !ok || l.Name == "" || strings.ContainsAny(l.Name, " \n\x00") {
		return nil, fmt.Errorf(`want a "kind" of process, unit, package or tree, and a "name" without spaces`)
	}
	c := &serverv1.Candidate{
		Id: ID(p.name, l.Name), Kind: kind, Name: l.Name, Version: l.Version, Path: l.Path, Package: l.Package,
		State: l.State, Files: l.Files,
	}
	if kind == serverv1.CandidateKind_CANDIDATE_KIND_UNIT {
		if !strings.HasSuffix(l.Unit, ".service") {
			return nil, fmt.Errorf(`want a "unit" such as web.service`)
		}
		c.Id, c.Unit = UnitID(l.Unit), l.Unit
	}
	if kind == serverv1.CandidateKind_CANDIDATE_KIND_PROCESS && table[l.Pid] == nil {
		return nil, fmt.Errorf("process %d does not run", l.Pid)
	}
	if is := table[l.Pid]; l.Pid != 0 && is != nil {
		if s.ours(is) {
			return nil, nil
		}
		is.describe(c)
		if kind == serverv1.CandidateKind_CANDIDATE_KIND_PROCESS {
			c.Id = ProcessID(is.pid, is.start)
		}
	}
	return c, nil
}

// The base set is what every machine of a distribution has. It is listed only with All.

// isBaseUnit reports whether a unit belongs to systemd itself or to logins.
func isBaseUnit(name string) bool {
	for _, prefix := range []string{
		"systemd-", "getty@", "serial-getty@", "console-getty", "container-getty@", "autovt@", "user@",
		"user-runtime-dir@", "dbus", "session-", "init.scope", "emergency.", "rescue.", "initrd-", "modprobe@",
		"plymouth", "dracut-", "polkit", "e2scrub", "fstrim", "apt-daily", "dpkg-db-backup", "man-db", "motd-news",
		"logrotate.", "networkd-dispatcher", "wpa_supplicant", "ldconfig", "kmod",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// isBasePackage reports whether a package is part of every machine, where its manager does not say so.
func isBasePackage(name string) bool {
	for _, prefix := range []string{
		"systemd", "dbus", "kernel", "glibc", "linux-", "lib", "grub", "initramfs", "udev",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"bash", "coreutils", "util-linux", "filesystem", "setup", "shadow-utils", "login", "passwd", "e2fsprogs", "apt",
		"dpkg", "rpm", "dnf", "yum", "man-db", "logrotate", "cron", "cronie", "kmod", "procps", "procps-ng", "pam",
	}, name)
}

// sorted returns a list sorted, each text once.
func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// isProgram reports whether a packaged file is a program or a unit.
func isProgram(path string) bool {
	for _, dir := range []string{
		"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/", "/usr/local/", "/opt/", "/usr/libexec/",
	} {
		if strings.HasPrefix(path, dir) {
			return true
		}
	}
	return isUnitFile(path)
}

func isUnitFile(path string) bool {
	return strings.HasSuffix(path, ".service") && strings.Contains(path, "/systemd/system/")
}
