package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/garrison-fleet/garrison/pkg/visible"
)

// systemctlWithin bounds a question to systemd.
const systemctlWithin = 30 * time.Second

// unit is a service of systemd.
type unit string

func (u unit) ctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, systemctlWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", append(args, "--", string(u))...).CombinedOutput()
	text := strings.TrimSpace(visible.Text(string(out)))
	if err != nil {
		return "", fmt.Errorf("systemctl %s %s: %w: %s", args[0], u, err, text)
	}
	return text, nil
}

// property returns a property of the unit.
func (u unit) property(ctx context.Context, name string) (string, error) {
	return u.ctl(ctx, "show", "--value", "--property", name)
}

// path returns where the program of the unit is installed.
func (u unit) path(ctx context.Context) (string, error) {
	shown, err := u.property(ctx, "ExecStart")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(shown, "path=")
	path, _, found := strings.Cut(rest, " ;")
	if !found || !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("%s starts no program: it is not installed, or masked", u)
	}
	return path, nil
}

// main returns the main process of the unit. Without one it is an error.
func (u unit) main(ctx context.Context) (int, error) {
	shown, err := u.property(ctx, "MainPID")
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(shown)
	if err == nil && pid == 0 {
		err = fmt.Errorf("%s does not run; start it: systemctl start %s", u, u)
	}
	return pid, err
}

// stopped reports whether the unit is stopped, and systemd is not about to start it again.
func (u unit) stopped(ctx context.Context) (bool, error) {
	shown, err := u.property(ctx, "ActiveState")
	return shown == "inactive", err
}

// ready returns an error unless the unit is ready.
func (u unit) ready(ctx context.Context) error {
	shown, err := u.property(ctx, "ActiveState")
	if err == nil && shown != "active" {
		err = fmt.Errorf("%s is %s", u, shown)
	}
	return err
}

// restarts returns how often systemd has restarted the unit by itself since its last manual start.
func (u unit) restarts(ctx context.Context) (int, error) {
	shown, err := u.property(ctx, "NRestarts")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(shown)
}

// restart asks systemd to start the unit again, and does not wait for it.
func (u unit) restart(ctx context.Context) error {
	_, err := u.ctl(ctx, "restart", "--no-block")
	return err
}

// journal returns the last lines that the unit has logged since then, where systemd keeps them.
func (u unit) journal(ctx context.Context, since time.Time) string {
	ctx, cancel := context.WithTimeout(ctx, systemctlWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, "journalctl", "--no-pager", "--quiet", "-o", "cat", "-n", "5",
		"--since", fmt.Sprintf("@%d", since.Unix()), "-u", string(u)).Output()
	if err != nil || len(out) == 0 {
		return "nothing that the journal has"
	}
	return strings.TrimSpace(visible.Text(string(out)))
}

// worker returns the unit in which other programs run as the user of this one. There is one of them: what a command
// that was killed left running ends before the next one begins.
func (u unit) worker() unit { return unit("upgrade-of-" + string(u)) }

// runWithin bounds a program that runs as the unit's user. A rehearsal bounds itself to an hour.
const runWithin = 2 * time.Hour

// passedOn are the properties of the unit that a program of its user gets: who it is, what it is set to, and how far it
// is kept from the rest of the machine.
var passedOn = []string{
	"User", "Group", "SupplementaryGroups", "Environment", "WorkingDirectory", "UMask", "LimitNOFILE",
	"NoNewPrivileges", "ProtectHome", "PrivateTmp", "CapabilityBoundingSet", "RestrictAddressFamilies",
	"RestrictNamespaces", "RestrictSUIDSGID", "ProtectKernelModules", "ProtectKernelTunables", "ProtectControlGroups",
}

// run runs a program with the unit's user, settings and walls. It writes below the directories alone. It returns the
// end of what the program printed, and copies all of it.
func (u unit) run(
	ctx context.Context, to io.Writer, directories []string, program string, args ...string,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	stop := func() { _, _ = u.worker().ctl(context.WithoutCancel(ctx), "stop") } // mostly it is not there
	stop()
	defer stop()
	flags := []string{
		"--pipe", "--wait", "--collect", "--quiet", "--service-type=exec", "--unit=" + string(u.worker()),
		"--property=ProtectSystem=strict", "--property=ReadWritePaths=" + strings.Join(directories, " "),
	}
	for _, name := range passedOn {
		value, err := u.property(ctx, name)
		if err != nil {
			return "", err
		}
		if value != "" {
			flags = append(flags, "--property="+name+"="+value)
		}
	}
	files, err := u.property(ctx, "EnvironmentFiles")
	if err != nil {
		return "", err
	}
	for _, line := range strings.Split(files, "\n") { // /etc/a.env (ignore_errors=yes)
		if file, _, found := strings.Cut(line, " (ignore_errors="); found {
			flags = append(flags, "--property=EnvironmentFile=-"+file)
		}
	}
	var end tail
	cmd := exec.CommandContext(ctx, "systemd-run", slices.Concat(flags, []string{"--", program}, args)...)
	cmd.Stdout = io.MultiWriter(to, &end)
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = systemctlWithin
	err = cmd.Run()
	return strings.TrimSpace(string(end)), err
}

// tail is the end of what is written to it.
type tail []byte

const tailSize = 2000

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-tailSize):]
	return len(p), nil
}

// arguments returns the arguments with which a process was started, without its program.
func arguments(pid int) ([]string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, err
	}
	args := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
	return args[1:], nil
}

// executable is the program that a process runs, also when another one is installed in its place.
func executable(pid int) string { return fmt.Sprintf("/proc/%d/exe", pid) }

// programAt describes the program in a file. It runs what it has read, whatever the path leads to by then.
func programAt(ctx context.Context, path string) (Program, error) {
	f, err := os.Open(path)
	if err != nil {
		return Program{}, err
	}
	defer func() { _ = f.Close() }()
	sum, err := digestOf(f)
	if err != nil {
		return Program{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, systemctlWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3", "--version")
	cmd.ExtraFiles = []*os.File{f}
	out, err := cmd.Output()
	if err != nil {
		return Program{}, fmt.Errorf("%s --version: %w", path, err)
	}
	words := strings.Fields(string(out))
	if len(words) < 2 || words[0] != "garrisond" {
		return Program{}, errors.New(path + " is not garrisond")
	}
	return Program{Version: visible.Line(words[1]), SHA256: sum}, nil
}

// is returns an error unless a file holds a program.
func is(path string, p Program) error {
	sum, err := digest(path)
	if err == nil && sum != p.SHA256 {
		err = fmt.Errorf("%s is not the program of version %s", path, p.Version)
	}
	return err
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	return digestOf(f)
}

// digestOf returns the SHA-256 of a program that only root can have written: root runs it, and installs it again when
// it is needed, and a control plane that is taken over must not choose what root runs.
func digestOf(f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s can be written by others than root: chown root and chmod go-w it", f.Name())
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copyProgram copies a program, and checks that the copy is that one. The copy is whole when it appears.
func copyProgram(from, to string, p Program) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := renameio.NewPendingFile(to, renameio.WithStaticPermissions(0o755),
		renameio.WithTempDir(filepath.Dir(to)))
	if err != nil {
		return err
	}
	defer func() { _ = out.Cleanup() }()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, h), in); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != p.SHA256 {
		return fmt.Errorf("%s is not the program of version %s", from, p.Version)
	}
	if err := out.CloseAtomicallyReplace(); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.Sync()
}
