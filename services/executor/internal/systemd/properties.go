package systemd

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// execution is one command of a service (ExecStartEx).
type execution struct {
	Path  string
	Args  []string // from the program's own name on
	Flags []string
}

// properties gives the settings of a slot's service. input is what it gets as standard
// input, or nil. bursts is how often systemd starts it before it gives up.
func (u *unit) properties(input *os.File, bursts int) ([]property, error) {
	s, p := u.spec, u.policy
	path, args, err := u.command()
	if err != nil {
		return nil, err
	}
	within := s.StopTimeout
	if within == 0 {
		within = supervise.DefaultStopTimeout
	}
	out := []property{
		set("Description", "Garrison agent "+s.Name),
		set("Slice", slice),
		set("CollectMode", "inactive-or-failed"),
		set("ExecStartEx", []execution{{path, append([]string{s.Path}, args...), []string{"no-env-expand"}}}),
		set("WorkingDirectory", s.Dir),
		set("Environment", s.Env),
		set("UnsetEnvironment", foreign(s.Env)),
		set("StandardOutputFileToAppend", s.Output),
		set("StandardErrorFileToAppend", s.Output),
		set("KillMode", "control-group"),
		set("TimeoutStopUSec", micros(within)),
	}
	if input != nil {
		out = append(out, set("StandardInputFileDescriptor", dbus.UnixFD(input.Fd())), set("FileDescriptorStoreMax", uint32(1)))
	}
	if s.Notify && !u.once {
		// How long it may take is the executor's to say, who proves it.
		out = append(out, set("Type", "notify"), set("TimeoutStartUSec", uint64(math.MaxUint64)))
	} else {
		out = append(out, set("Type", "exec"))
	}
	if s.Notify || input != nil {
		out = append(out, set("NotifyAccess", "all"))
	}
	if !u.once {
		out = append(out, set("Restart", "always"), set("RestartUSec", micros(p.First)),
			set("StartLimitBurst", uint32(bursts)), set("StartLimitIntervalUSec", micros(time.Duration(p.CrashLoop)*(p.Steady+p.First))))
	}
	out = append(out, limits(s.Limits)...)
	return append(out, sandbox(s)...), nil
}

func set(name string, value any) property { return property{name, dbus.MakeVariant(value)} }

func micros(d time.Duration) uint64 { return uint64(d.Microseconds()) }

// command gives the program of a service and its arguments. One with sockets becomes the
// agent from within.
func (u *unit) command() (path string, args []string, err error) {
	if u.spec.Sockets == nil {
		return u.spec.Path, u.spec.Args, nil
	}
	args, err = supervise.Orders{Take: true, Quiet: !u.spec.Notify}.Arguments(u.spec.Path, u.spec.Args)
	return u.shim, args, err
}

// foreign lists what systemd would put into the environment that is not the agent's own.
func foreign(env []string) []string {
	names := []string{
		"HOME", "LOGNAME", "USER", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID",
		"MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE", "SYSTEMD_NSS_DYNAMIC_BYPASS",
	}
	return slices.DeleteFunc(names, func(n string) bool {
		return slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, n+"=") })
	})
}

func limits(l *imagev1.Limits) (out []property) {
	if n := l.GetMemoryBytes(); n > 0 {
		out = append(out, set("MemoryMax", n))
	}
	if n := l.GetCpuPercent(); n > 0 {
		out = append(out, set("CPUQuotaPerSecUSec", uint64(n)*uint64(time.Second.Microseconds())/100))
	}
	if n := l.GetTasks(); n > 0 {
		out = append(out, set("TasksMax", uint64(n)))
	}
	if n := l.GetOpenFiles(); n > 0 {
		out = append(out, set("LimitNOFILE", n), set("LimitNOFILESoft", n))
	}
	return out
}

func sandbox(s supervise.Spec) (out []property) {
	b := s.Sandbox
	if b.GetUser() != "" {
		out = append(out, set("User", b.GetUser()))
	}
	if b.GetNoNewPrivileges() {
		out = append(out, set("NoNewPrivileges", true))
	}
	if b.GetReadOnlySystem() {
		writable := append([]string{s.Dir, filepath.Dir(s.Output)}, b.GetWritable()...)
		out = append(out, set("ProtectSystem", "strict"), set("ReadWritePaths", writable))
	}
	if b.GetPrivateTmp() {
		out = append(out, set("PrivateTmp", true))
	}
	if b.GetNoHomes() {
		out = append(out, set("ProtectHome", "yes"))
	}
	if b.GetBoundCapabilities() {
		bits := capabilityBits(b.GetCapabilities())
		out = append(out, set("CapabilityBoundingSet", bits))
		if b.GetUser() != "" {
			out = append(out, set("AmbientCapabilities", bits)) // a user who is not root has none otherwise
		}
	}
	return out
}

func capabilityBits(names []string) (bits uint64) {
	for _, n := range names {
		if bit, ok := capabilities[n]; ok {
			bits |= 1 << bit
		}
	}
	return bits
}

// capabilities are those of capabilities(7).
var capabilities = map[string]uint{
	"CAP_CHOWN": unix.CAP_CHOWN, "CAP_DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "CAP_DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH,
	"CAP_FOWNER": unix.CAP_FOWNER, "CAP_FSETID": unix.CAP_FSETID, "CAP_KILL": unix.CAP_KILL, "CAP_SETGID": unix.CAP_SETGID,
	"CAP_SETUID": unix.CAP_SETUID, "CAP_SETPCAP": unix.CAP_SETPCAP, "CAP_LINUX_IMMUTABLE": unix.CAP_LINUX_IMMUTABLE,
	"CAP_NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE, "CAP_NET_BROADCAST": unix.CAP_NET_BROADCAST, "CAP_NET_ADMIN": unix.CAP_NET_ADMIN,
	"CAP_NET_RAW": unix.CAP_NET_RAW, "CAP_IPC_LOCK": unix.CAP_IPC_LOCK, "CAP_IPC_OWNER": unix.CAP_IPC_OWNER,
	"CAP_SYS_MODULE": unix.CAP_SYS_MODULE, "CAP_SYS_RAWIO": unix.CAP_SYS_RAWIO, "CAP_SYS_CHROOT": unix.CAP_SYS_CHROOT,
	"CAP_SYS_PTRACE": unix.CAP_SYS_PTRACE, "CAP_SYS_PACCT": unix.CAP_SYS_PACCT, "CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN,
	"CAP_SYS_BOOT": unix.CAP_SYS_BOOT, "CAP_SYS_NICE": unix.CAP_SYS_NICE, "CAP_SYS_RESOURCE": unix.CAP_SYS_RESOURCE,
	"CAP_SYS_TIME": unix.CAP_SYS_TIME, "CAP_SYS_TTY_CONFIG": unix.CAP_SYS_TTY_CONFIG, "CAP_MKNOD": unix.CAP_MKNOD,
	"CAP_LEASE": unix.CAP_LEASE, "CAP_AUDIT_WRITE": unix.CAP_AUDIT_WRITE, "CAP_AUDIT_CONTROL": unix.CAP_AUDIT_CONTROL,
	"CAP_SETFCAP": unix.CAP_SETFCAP, "CAP_MAC_OVERRIDE": unix.CAP_MAC_OVERRIDE, "CAP_MAC_ADMIN": unix.CAP_MAC_ADMIN,
	"CAP_SYSLOG": unix.CAP_SYSLOG, "CAP_WAKE_ALARM": unix.CAP_WAKE_ALARM, "CAP_BLOCK_SUSPEND": unix.CAP_BLOCK_SUSPEND,
	"CAP_AUDIT_READ": unix.CAP_AUDIT_READ, "CAP_PERFMON": unix.CAP_PERFMON, "CAP_BPF": unix.CAP_BPF,
	"CAP_CHECKPOINT_RESTORE": unix.CAP_CHECKPOINT_RESTORE,
}

// unknownCapability gives the first name that is none.
func unknownCapability(names []string) error {
	for _, n := range names {
		if _, ok := capabilities[n]; !ok {
			return fmt.Errorf("%q is no capability", n)
		}
	}
	return nil
}
