package systemd

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/inherit"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// execution is one command of a service (ExecStartEx).
type execution struct {
	Path  string
	Args  []string // with the program's own name
	Flags []string
}

// settings determine the properties of a slot's service.
type settings struct {
	supervise.Spec
	policy supervise.Policy
	shim   string
	once   bool // run once, to its end
	bursts int  // how often systemd may start it in a row
}

// properties returns the properties of the service. input is its standard input, or nil.
func (s settings) properties(input *os.File) ([]property, error) {
	p := s.policy
	path, args, err := s.command()
	if err != nil {
		return nil, err
	}
	out := []property{
		set("Description", "Garrison agent "+s.Name),
		set("Slice", slice),
		set("CollectMode", "inactive-or-failed"),
		set("ExecStartEx", []execution{{path, append([]string{s.Path}, args...), []string{"no-env-expand"}}}),
		set("WorkingDirectory", s.Dir),
		set("Environment", s.Env),
		set("UnsetEnvironment", foreign(s.Env)),
		set("UMask", uint32(inherit.Umask)),
		set("Nice", int32(inherit.Nice)),
		set("OOMScoreAdjust", int32(inherit.OOMScore)),
		set("IgnoreSIGPIPE", false),
		set("StandardOutputFileToAppend", s.Output),
		set("StandardErrorFileToAppend", s.Output),
		set("KillMode", "control-group"),
		set("TimeoutStopUSec", micros(s.Spec.StopWithin())),
	}
	if input != nil {
		out = append(out, set("StandardInputFileDescriptor", dbus.UnixFD(input.Fd())),
			set("FileDescriptorStoreMax", uint32(1)))
	}
	if awaitsReady(s.Spec, s.once) { // the executor's health check bounds the start, not systemd
		out = append(out, set("Type", "notify"), set("TimeoutStartUSec", uint64(math.MaxUint64)))
	} else {
		out = append(out, set("Type", "exec"))
	}
	if s.Notify || input != nil {
		out = append(out, set("NotifyAccess", "all"))
	}
	if !s.once {
		out = append(out, set("Restart", "always"), set("RestartUSec", micros(p.First)),
			set("StartLimitBurst", uint32(s.bursts)),
			set("StartLimitIntervalUSec", micros(time.Duration(p.CrashLoop)*(p.Steady+p.First))))
	}
	out = append(out, limits(s.Limits)...)
	return append(out, sandbox(s.Spec)...), nil
}

func set(name string, value any) property { return property{name, dbus.MakeVariant(value)} }

func micros(d time.Duration) uint64 { return uint64(d.Microseconds()) }

// command returns the program of a service and its arguments. With sockets it is the shim, which becomes the agent.
func (s settings) command() (path string, args []string, err error) {
	if s.Sockets == nil {
		return s.Path, s.Args, nil
	}
	args, err = supervise.Orders{Take: true, Quiet: !s.Notify}.Arguments(s.Path, s.Args)
	return s.shim, args, err
}

// foreign returns the variables that systemd would add to the environment.
func foreign(env []string) []string {
	names := []string{
		"HOME", "LOGNAME", "USER", "SHELL", "LANG", "LANGUAGE", "LC_ALL",
		"INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE_WATCH",
		"MEMORY_PRESSURE_WRITE", "SYSTEMD_NSS_DYNAMIC_BYPASS",
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
			out = append(out, set("AmbientCapabilities", bits)) // without it only root has any
		}
	}
	return out
}
