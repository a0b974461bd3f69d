package image

import (
	"path"
	"regexp"
	"strconv"
	"strings"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
)

type limitsRecipe struct {
	Memory    string `json:"memory"`
	CPU       string `json:"cpu"`
	Tasks     uint32 `json:"tasks"`
	OpenFiles uint64 `json:"open_files"`
}

type sandboxRecipe struct {
	User            string    `json:"user"`
	NoNewPrivileges bool      `json:"no_new_privileges"`
	ReadOnlySystem  bool      `json:"read_only_system"`
	Writable        []string  `json:"writable"`
	PrivateTmp      bool      `json:"private_tmp"`
	NoHomes         bool      `json:"no_homes"`
	Capabilities    *[]string `json:"capabilities"` // an empty list differs from a missing key
}

// The ranges of the limits. No program starts below the minimum.
const (
	minMemory    = 1 << 20
	maxMemory    = 1 << 50
	maxPercent   = 100_000
	maxTasks     = 1 << 22 // of a Linux server
	minOpenFiles = 8
	maxOpenFiles = 1 << 20 // the default of a Linux process
	maxWritable  = 64
	maxCapable   = 64
)

func (l *limitsRecipe) limits() (*imagev1.Limits, error) {
	if l == nil {
		return nil, nil
	}
	out := &imagev1.Limits{Tasks: l.Tasks, OpenFiles: l.OpenFiles}
	var err error
	if out.MemoryBytes, err = size("run.limits.memory", l.Memory); err != nil {
		return nil, err
	}
	out.CpuPercent, err = percent("run.limits.cpu", l.CPU)
	return out, err
}

func (s *sandboxRecipe) sandbox() *imagev1.Sandbox {
	if s == nil {
		return nil
	}
	out := &imagev1.Sandbox{
		User: s.User, NoNewPrivileges: s.NoNewPrivileges, ReadOnlySystem: s.ReadOnlySystem, Writable: s.Writable,
		PrivateTmp: s.PrivateTmp, NoHomes: s.NoHomes,
	}
	if s.Capabilities != nil {
		out.BoundCapabilities, out.Capabilities = true, *s.Capabilities
	}
	return out
}

var units = map[string]uint64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

// size parses a size such as 64MiB; the empty string is 0, which means unlimited.
func size(what, s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	for unit, bytes := range units {
		digits, found := strings.CutSuffix(s, unit)
		n, err := strconv.ParseUint(digits, 10, 32)
		if found && err == nil && n > 0 {
			return n * bytes, nil
		}
	}
	return 0, refuse(code.BadRecipe, "%s: %s %q is not a size in whole KiB, MiB, GiB or TiB, such as 64MiB", RecipeName,
		what, s)
}

// percent parses a share such as 150%; the empty string is 0, which means unlimited.
func percent(what, s string) (uint32, error) {
	if s == "" {
		return 0, nil
	}
	digits, found := strings.CutSuffix(s, "%")
	n, err := strconv.ParseUint(digits, 10, 32)
	if !found || err != nil || n == 0 {
		return 0, refuse(code.BadRecipe, "%s: %s %q is not a share of one processor in whole percent, such as 50%%",
			RecipeName, what, s)
	}
	return uint32(n), nil
}

var (
	userName       = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,30}$`)
	capabilityName = regexp.MustCompile(`^CAP_[A-Z_]{1,60}$`)
)

// checkConfinement checks the limits and the sandbox of a manifest. It does not check whether a server can
// enforce them: the executor on that server does.
func checkConfinement(m *imagev1.Manifest) error {
	l, s := m.GetRun().GetLimits(), m.GetRun().GetSandbox()
	if l == nil && s == nil {
		return nil
	}
	if k := m.GetKind(); k != agentv1.Kind_KIND_DAEMON && k != agentv1.Kind_KIND_ONESHOT {
		return refuse(code.BadManifest,
			"run.limits or run.sandbox is there, but only kinds daemon and oneshot can be confined")
	}
	for _, b := range []struct {
		name           string
		n, least, most uint64
	}{
		{"memory", l.GetMemoryBytes(), minMemory, maxMemory}, {"cpu", uint64(l.GetCpuPercent()), 1, maxPercent},
		{"tasks", uint64(l.GetTasks()), 1, maxTasks}, {"open_files", l.GetOpenFiles(), minOpenFiles, maxOpenFiles},
	} {
		if b.n != 0 && (b.n < b.least || b.n > b.most) {
			return refuse(code.BadManifest, "run.limits.%s is %d, want %d to %d", b.name, b.n, b.least, b.most)
		}
	}
	return checkSandbox(s)
}

// checkSandbox checks each field of a sandbox; nil is valid.
func checkSandbox(s *imagev1.Sandbox) error {
	switch {
	case s.GetUser() != "" && !userName.MatchString(s.User):
		return refuse(code.BadManifest, "run.sandbox.user %q is not the name of a user", s.User)
	case len(s.GetWritable()) > maxWritable || len(s.GetCapabilities()) > maxCapable:
		return refuse(code.BadManifest, "run.sandbox names %d paths and %d capabilities, want at most %d and %d",
			len(s.Writable), len(s.Capabilities), maxWritable, maxCapable)
	case len(s.GetWritable()) > 0 && !s.ReadOnlySystem:
		return refuse(code.BadManifest, "run.sandbox.writable is there, but read_only_system is not true")
	case len(s.GetCapabilities()) > 0 && !s.BoundCapabilities:
		return refuse(code.BadManifest, "the sandbox names capabilities, but does not bound them")
	}
	if err := checkWritable(s.GetWritable()); err != nil {
		return err
	}
	return checkCapabilities(s.GetCapabilities())
}

// checkWritable refuses a path that is not a clean absolute path below the root.
func checkWritable(paths []string) error {
	for _, p := range paths {
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || len(p) > maxText ||
			strings.ContainsFunc(p, func(r rune) bool { return r < ' ' }) {
			return refuse(code.BadManifest, "run.sandbox.writable %q is not an absolute path below /", p)
		}
	}
	return nil
}

// checkCapabilities refuses a name that does not have the form of a Linux capability.
func checkCapabilities(names []string) error {
	for _, c := range names {
		if !capabilityName.MatchString(c) {
			return refuse(code.BadManifest,
				"run.sandbox.capabilities %q is not a capability (want names such as CAP_NET_BIND_SERVICE)", c)
		}
	}
	return nil
}
