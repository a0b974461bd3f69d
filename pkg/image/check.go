package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// The bounds of an image.
const (
	MaxSize     = 4 << 30                      // bytes of a blob
	MaxChunks   = MaxSize / topology.ChunkSize // chunks of a blob; smaller chunks are for smaller blobs
	MaxUnpacked = 64 << 30                     // bytes of all files together
	MaxEntries  = 1_000_000                    // entries of the archive
	maxText     = 1024                         // bytes of a description or tag
	maxTags     = 64
	maxRun      = 64 << 10 // bytes of command, arguments and environment together
	maxVersion  = 128
	maxWaitMs   = 60 * 60 * 1000 // an hour
)

// platforms lists the supported platforms, by their Go names.
var platforms = map[string][]string{
	"linux":   {"386", "amd64", "arm", "arm64", "loong64", "ppc64le", "riscv64", "s390x"},
	"darwin":  {"amd64", "arm64"},
	"freebsd": {"amd64", "arm64"},
	"illumos": {"amd64"},
	"solaris": {"amd64"},
}

// ID computes the id that the manifest must have, from agent, version, platform and digest.
func ID(m *imagev1.Manifest) string {
	return ident.From("image", m.GetAgent(), m.GetVersion(), m.GetPlatform().GetOs(), m.GetPlatform().GetArch(),
		hex.EncodeToString(m.GetBlob().GetDigest()))
}

// Check refuses an invalid manifest: names, version, platform, kind,
// sizes and counts, the command, and the id. It does not read the content.
func Check(m *imagev1.Manifest) error {
	for _, check := range []func(*imagev1.Manifest) error{
		checkNames, checkBlob, checkKind, checkNeeds, checkPaths, checkRun, checkSockets, checkConfigs,
		checkConfinement, checkTexts, seal.Check,
	} {
		if err := check(m); err != nil {
			return err
		}
	}
	if want := ID(m); m.Id != want {
		return refuse(
			code.WrongID,
			"image id %q does not fit agent, version, platform and digest (want %s)",
			m.Id,
			want,
		)
	}
	return nil
}

func checkNames(m *imagev1.Manifest) error {
	if err := ident.CheckName("agent", m.GetAgent()); err != nil {
		return refuse(code.BadName, "%v", err)
	}
	if err := CheckVersion(m.GetVersion()); err != nil {
		return refuse(code.BadVersion, "version %v", err)
	}
	return checkPlatform(m.GetPlatform())
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

func checkPlatform(p *serverv1.Platform) error {
	for _, arch := range platforms[p.GetOs()] {
		if arch == p.GetArch() {
			return nil
		}
	}
	return refuse(code.UnknownPlatform, "platform %q is not known (want names as Go has them, such as linux/amd64)",
		p.GetOs()+"/"+p.GetArch())
}

func checkBlob(m *imagev1.Manifest) error {
	b := m.GetBlob()
	switch {
	case len(b.GetDigest()) != sha256.Size:
		return refuse(code.BadManifest, "digest has %d bytes, want %d", len(b.GetDigest()), sha256.Size)
	case b.SizeBytes == 0 || b.SizeBytes > MaxSize:
		return refuse(code.BadManifest, "blob has %d bytes, want 1 to %d", b.SizeBytes, int64(MaxSize))
	case b.ChunkSizeBytes == 0 || b.ChunkSizeBytes > topology.ChunkSize:
		return refuse(code.BadManifest, "chunks have %d bytes, want 1 to %d", b.ChunkSizeBytes, topology.ChunkSize)
	case b.UnpackedSizeBytes > MaxUnpacked:
		return refuse(code.BadManifest, "unpacked size is %d bytes, want at most %d", b.UnpackedSizeBytes,
			int64(MaxUnpacked))
	case b.Entries > MaxEntries:
		return refuse(code.BadManifest, "archive has %d entries, want at most %d", b.Entries, MaxEntries)
	}
	want := (b.SizeBytes + uint64(b.ChunkSizeBytes) - 1) / uint64(b.ChunkSizeBytes)
	if want > MaxChunks {
		return refuse(code.BadManifest, "blob has %d chunks, want at most %d: the chunk size is too small", want,
			MaxChunks)
	}
	if have := uint64(len(b.ChunkDigests)); have != want {
		return refuse(code.BadManifest, "manifest has %d chunk digests, want %d for %d bytes in chunks of %d", have,
			want, b.SizeBytes, b.ChunkSizeBytes)
	}
	for n, d := range b.ChunkDigests {
		if len(d) != sha256.Size {
			return refuse(code.BadManifest, "digest of chunk %d has %d bytes, want %d", n, len(d), sha256.Size)
		}
	}
	return nil
}

var (
	envName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	variable = regexp.MustCompile(`\$\{([^}]*)\}?`)
	known    = map[string]bool{
		"${agent}":   true,
		"${version}": true,
		"${server}":  true,
		"${state}":   true,
		"${image}":   true,
		"${config}":  true,
	}
	label = regexp.MustCompile(`^\$\{label\.[^{}$\s]+\}$`)
)

func checkVariables(word string) error {
	for _, v := range variable.FindAllString(word, -1) {
		if !known[v] && !label.MatchString(v) && !metadata.MatchString(v) {
			return refuse(
				code.UnknownVariable,
				"variable %s in %q is not known (want ${agent}, ${version}, ${server}, ${state}, ${image}, "+
					"${config}, ${label.NAME} or ${metadata.NAME})",
				v,
				word,
			)
		}
	}
	return nil
}

// inside reports whether a slash-separated path is relative and stays where it starts.
func inside(p string) bool {
	return filepath.IsLocal(p) && p != "." && !strings.ContainsAny(p, "\\\x00")
}

func checkTexts(m *imagev1.Manifest) error {
	if len(m.Description) > maxText || len(m.Tags) > maxTags {
		return refuse(code.BadManifest, "description has %d bytes and there are %d tags, want at most %d and %d",
			len(m.Description), len(m.Tags), maxText, maxTags)
	}
	for k, v := range m.Tags {
		if k == "" || len(k)+len(v) > maxText {
			return refuse(code.BadManifest, "tag %.40q is empty or has more than %d bytes", k, maxText)
		}
	}
	if at := m.PublishedAt; at != nil && !at.IsValid() {
		return refuse(code.BadManifest, "published_at is not a time")
	}
	return nil
}

func refuse(code, format string, args ...any) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: code, Message: fmt.Sprintf(format, args...)})
}
