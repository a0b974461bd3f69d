package image

import (
	"strconv"
	"strings"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/manifest"
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

func (l *limitsRecipe) limits(f *manifest.Faults) *imagev1.Limits {
	if l == nil {
		return nil
	}
	return &imagev1.Limits{
		MemoryBytes: size(f, "run.limits.memory", l.Memory), CpuPercent: percent(f, "run.limits.cpu", l.CPU),
		Tasks: l.Tasks, OpenFiles: l.OpenFiles,
	}
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
func size(f *manifest.Faults, field, s string) uint64 {
	if s == "" {
		return 0
	}
	for unit, bytes := range units {
		digits, found := strings.CutSuffix(s, unit)
		n, err := strconv.ParseUint(digits, 10, 32)
		if found && err == nil && n > 0 {
			return n * bytes
		}
	}
	f.Add(field, code.BadRecipe, "%s: %s %q is not a size in whole KiB, MiB, GiB or TiB, such as 64MiB", RecipeName,
		field, s)
	return 0
}

// percent parses a share such as 150%; the empty string is 0, which means unlimited.
func percent(f *manifest.Faults, field, s string) uint32 {
	if s == "" {
		return 0
	}
	digits, found := strings.CutSuffix(s, "%")
	n, err := strconv.ParseUint(digits, 10, 32)
	if !found || err != nil || n == 0 {
		f.Add(field, code.BadRecipe, "%s: %s %q is not a share of one processor in whole percent, such as 50%%",
			RecipeName, field, s)
	}
	return uint32(n)
}
