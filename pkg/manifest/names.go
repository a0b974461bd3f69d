package manifest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// The bounds of texts, in bytes, and of tags.
const (
	maxText    = 1024 // of a description or tag
	maxTags    = 64
	maxVersion = 128
)

// platforms lists the supported platforms, by their Go names.
var platforms = map[string][]string{
	"linux":   {"386", "amd64", "arm", "arm64", "loong64", "ppc64le", "riscv64", "s390x"},
	"darwin":  {"amd64", "arm64"},
	"freebsd": {"amd64", "arm64"},
	"illumos": {"amd64"},
	"solaris": {"amd64"},
}

func (f *Faults) names(m *imagev1.Manifest) {
	if err := ident.CheckName("agent", m.GetAgent()); err != nil {
		f.Add("agent", code.BadName, "%v", err)
	}
	if err := CheckVersion(m.GetVersion()); err != nil {
		f.Add("version", code.BadVersion, "version %v", err)
	}
	f.platform(m.GetPlatform())
}

func (f *Faults) platform(p *serverv1.Platform) {
	if !slices.Contains(platforms[p.GetOs()], p.GetArch()) {
		f.Add("platform", code.UnknownPlatform, "platform %q is not known (want names as Go has them, such as "+
			"linux/amd64)", p.GetOs()+"/"+p.GetArch())
	}
}

// versionText is what a version may have: no slash, so that it is part of a file name.
var versionText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~-]*$`)

// CheckVersion refuses an invalid image version. It need not be a semantic one, and package version orders all; a
// nearly semantic one, such as v1.0.0 or 1.0, is taken for a mistake.
func CheckVersion(text string) error {
	if _, err := semver.NewVersion(text); err == nil || text == "" {
		return checkSemantic(text)
	}
	if !versionText.MatchString(text) || !strings.ContainsAny(text, "0123456789") || len(text) > maxVersion {
		return fmt.Errorf("%.140q is not a version (want 1.2.3, or up to %d letters, digits and ._+~- with a digit)",
			text, maxVersion)
	}
	return nil
}

// checkSemantic refuses what is not a semantic version.
func checkSemantic(text string) error {
	if _, err := semver.StrictNewVersion(text); err != nil || len(text) > maxVersion {
		return fmt.Errorf("%.140q is not a semantic version (want MAJOR.MINOR.PATCH, without a v)", text)
	}
	return nil
}

// CheckOS refuses the name of an unsupported operating system.
func CheckOS(name string) error {
	if platforms[name] == nil {
		return fmt.Errorf("%q is not known (want %s)", name, strings.Join(slices.Sorted(maps.Keys(platforms)), ", "))
	}
	return nil
}

// CheckArch refuses the name of an unsupported architecture.
func CheckArch(name string) error {
	all := slices.Concat(slices.Collect(maps.Values(platforms))...)
	if !slices.Contains(all, name) {
		slices.Sort(all)
		return fmt.Errorf("%q is not known (want %s)", name, strings.Join(slices.Compact(all), ", "))
	}
	return nil
}

func (f *Faults) texts(m *imagev1.Manifest) {
	if n := len(m.GetDescription()); n > maxText {
		f.Add("description", code.BadManifest, "description has %d bytes, want at most %d", n, maxText)
	}
	if n := len(m.GetTags()); n > maxTags {
		f.Add("tags", code.BadManifest, "there are %d tags, want at most %d", n, maxTags)
	}
	for _, k := range slices.Sorted(maps.Keys(m.GetTags())) {
		if k == "" || len(k)+len(m.Tags[k]) > maxText {
			f.Add(fmt.Sprintf("tags.%.40s", k), code.BadManifest, "tag %.40q is empty or has more than %d bytes", k,
				maxText)
		}
	}
	if at := m.GetPublishedAt(); at != nil && !at.IsValid() {
		f.Add("published_at", code.BadManifest, "published_at is not a time")
	}
}
