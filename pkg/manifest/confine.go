package manifest

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// The ranges of the limits. No program starts below the minimum.
const (
	minMemory    = 1 << 20
	maxMemory    = 1 << 50
	maxPercent   = 100 * 4096 // of as many processors
	maxTasks     = 1 << 22    // of a Linux server
	minOpenFiles = 8
	maxOpenFiles = 1 << 20 // the default of a Linux process
	maxWritable  = 64
	maxCapable   = 64
)

var userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,30}$`)

// capabilities are those of capabilities(7).
var capabilities = strings.Fields(`
	CAP_AUDIT_CONTROL CAP_AUDIT_READ CAP_AUDIT_WRITE CAP_BLOCK_SUSPEND CAP_BPF CAP_CHECKPOINT_RESTORE CAP_CHOWN
	CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID CAP_IPC_LOCK CAP_IPC_OWNER CAP_KILL CAP_LEASE
	CAP_LINUX_IMMUTABLE CAP_MAC_ADMIN CAP_MAC_OVERRIDE CAP_MKNOD CAP_NET_ADMIN CAP_NET_BIND_SERVICE CAP_NET_BROADCAST
	CAP_NET_RAW CAP_PERFMON CAP_SETFCAP CAP_SETGID CAP_SETPCAP CAP_SETUID CAP_SYSLOG CAP_SYS_ADMIN CAP_SYS_BOOT
	CAP_SYS_CHROOT CAP_SYS_MODULE CAP_SYS_NICE CAP_SYS_PACCT CAP_SYS_PTRACE CAP_SYS_RAWIO CAP_SYS_RESOURCE
	CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_WAKE_ALARM`)

// confinement looks at the limits and the sandbox of a manifest, not at whether a server can
// enforce them: the executor on that server does.
func (f runFaults) confinement(m *imagev1.Manifest) {
	l, s := m.GetRun().GetLimits(), m.GetRun().GetSandbox()
	if l == nil && s == nil {
		return
	}
	if k := m.GetKind(); k != agentv1.Kind_KIND_DAEMON && k != agentv1.Kind_KIND_ONESHOT {
		f.Add("run.limits", code.BadManifest,
			"run.limits or run.sandbox is there, but only kinds daemon and oneshot can be confined")
	}
	for _, b := range []struct {
		field          string
		n, least, most uint64
	}{
		{"run.limits.memory", l.GetMemoryBytes(), minMemory, maxMemory},
		{"run.limits.cpu", uint64(l.GetCpuPercent()), 1, maxPercent},
		{"run.limits.tasks", uint64(l.GetTasks()), 1, maxTasks},
		{"run.limits.open_files", l.GetOpenFiles(), minOpenFiles, maxOpenFiles},
	} {
		if b.n != 0 && (b.n < b.least || b.n > b.most) {
			f.Add(b.field, code.BadManifest, "%s is %d, want %d to %d", b.field, b.n, b.least, b.most)
		}
	}
	f.sandbox(s)
}

// sandbox looks at each field of a sandbox; nil is valid.
func (f runFaults) sandbox(s *imagev1.Sandbox) {
	const writable, capable = "run.sandbox.writable", "run.sandbox.capabilities"
	if s.GetUser() != "" && !userName.MatchString(s.User) {
		f.Add("run.sandbox.user", code.BadManifest, "run.sandbox.user %q is not the name of a user", s.User)
	}
	f.tooMany(writable, len(s.GetWritable()), maxWritable)
	f.tooMany(capable, len(s.GetCapabilities()), maxCapable)
	if len(s.GetWritable()) > 0 && !s.ReadOnlySystem {
		f.Add(writable, code.BadManifest, "run.sandbox.writable is there, but read_only_system is not true")
	}
	if len(s.GetCapabilities()) > 0 && !s.BoundCapabilities {
		f.Add(capable, code.BadManifest, "the sandbox names capabilities, but does not bound them")
	}
	for n, p := range s.GetWritable() {
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || len(p) > maxText ||
			strings.ContainsFunc(p, func(r rune) bool { return r < ' ' }) {
			f.Add(at(writable, n), code.BadManifest, "run.sandbox.writable %q is not an absolute path below /", p)
		}
	}
	for n, c := range s.GetCapabilities() {
		if !slices.Contains(capabilities, c) {
			f.Add(at(capable, n), code.BadManifest,
				"run.sandbox.capabilities %q is not a capability of Linux (want names such as CAP_NET_BIND_SERVICE)", c)
		}
	}
}
