package manifest

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// maxDistributions is how many distributions a manifest may name.
const maxDistributions = 16

var (
	// release is a release of a kernel or of a distribution: numbers, then anything.
	release        = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9}){0,3}`)
	distributionID = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
)

// machine looks at what an image needs of a machine.
func (f *Faults) machine(m *imagev1.Machine) {
	if k := m.GetKernel(); k != "" && release.FindString(k) != k {
		f.Add("machine.kernel", code.BadVersion, "machine.kernel %q is not a release, such as 5.10", k)
	}
	f.tooMany("machine.distributions", len(m.GetDistributions()), maxDistributions)
	for _, d := range m.GetDistributions() {
		field := "machine.distributions." + d.GetId()
		if !distributionID.MatchString(d.GetId()) {
			f.Add(field, code.BadName, "machine.distributions names %q, want an ID of os-release(5), such as debian",
				d.GetId())
		}
		if v := d.GetVersion(); v != "" && release.FindString(v) != v {
			f.Add(field, code.BadVersion, "machine.distributions has version %q of %s, want such as 12 or 22.04", v,
				d.GetId())
		}
	}
	f.bytes("machine.memory", m.GetMemoryBytes())
	f.bytes("machine.disk", m.GetDiskBytes())
}

func (f *Faults) bytes(field string, n uint64) {
	if n > maxMemory {
		f.Add(field, code.BadManifest, "%s is %s, want at most %s", field, Size(n), Size(maxMemory))
	}
}

// Lack is what a machine lacks.
type Lack struct{ Wanted, Found string }

// Lacks returns what a machine lacks of what an image needs, all of it, but for free disk. What the machine does not
// report counts as there.
func Lacks(m *imagev1.Machine, have *serverv1.Sysinfo) (out []Lack) {
	if k := have.GetKernel(); k != "" && below(k, m.GetKernel()) {
		out = append(out, Lack{"kernel " + m.Kernel + " or newer", "kernel " + k})
	}
	if d := have.GetDistribution(); d != "" && !isOneOf(d, m.GetDistributions()) {
		out = append(out, Lack{distributions(m.Distributions), d})
	}
	if m.GetCgroupV2() && have != nil && have.CgroupV2 != nil && !*have.CgroupV2 {
		out = append(out, Lack{"control groups of version 2 alone", "version 1"})
	}
	if n := have.GetMemoryBytes(); n > 0 && n < m.GetMemoryBytes() {
		out = append(out, Lack{Size(m.MemoryBytes) + " of memory", Size(n)})
	}
	return out
}

// Size returns a number of bytes in the largest unit that it reaches, with two decimals at most, such as 1.95 GiB.
func Size(n uint64) string {
	f, unit := float64(n), "bytes"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f >= 1024 {
			f, unit = f/1024, larger
		}
	}
	return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64) + " " + unit
}

// Words returns what is lacking in words; of nothing, the empty text.
func Words(lacks []Lack) string {
	var out []string
	for _, l := range lacks {
		out = append(out, fmt.Sprintf("it needs %s, and has %s", l.Wanted, l.Found))
	}
	return strings.Join(out, "; ")
}

// isOneOf reports whether a distribution, such as debian 12, is one of those that an image works on.
func isOneOf(have string, all []*imagev1.Distribution) bool {
	id, v, _ := strings.Cut(have, " ")
	for _, d := range all {
		if d.GetId() == id && !below(v, d.GetVersion()) {
			return true
		}
	}
	return len(all) == 0
}

func distributions(all []*imagev1.Distribution) string {
	var out []string
	for _, d := range all {
		text := d.GetId()
		if d.GetVersion() != "" {
			text += " " + d.GetVersion() + " or newer"
		}
		out = append(out, text)
	}
	return strings.Join(out, " or ")
}

// below reports whether a release comes before the least one. Both count by their leading numbers only: 6.1.0-18-amd64
// is 6.1.0. A release without any, as of a rolling distribution, comes before none.
func below(have, least string) bool {
	a, b := numbers(have), numbers(least)
	if len(a) == 0 {
		return false
	}
	for n, want := range b {
		found := uint64(0)
		if n < len(a) {
			found = a[n]
		}
		if found != want {
			return found < want
		}
	}
	return false
}

func numbers(text string) (out []uint64) {
	for part := range strings.SplitSeq(release.FindString(text), ".") {
		if n, err := strconv.ParseUint(part, 10, 32); err == nil {
			out = append(out, n)
		}
	}
	return out
}
