package sbom

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"io"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
)

// Part is a component of which an SBOM is made.
type Part struct {
	Type    string `json:"type"` // library
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl"`
}

// Package returns the part for a package of a distribution that is not known. Its kind is deb or rpm.
func Package(kind, name, version, arch string) Part {
	purl := "pkg:" + kind + "/" + url.PathEscape(name)
	if version != "" {
		purl += "@" + url.QueryEscape(version)
	}
	if arch != "" {
		purl += "?arch=" + url.QueryEscape(arch)
	}
	return Part{Type: "library", Name: name, Version: version, PURL: purl}
}

// OfGo returns the parts of a program that Go built: its modules, the one of the program included when its version is
// known, and the standard library. Of any other file it returns none.
func OfGo(program io.ReaderAt) []Part {
	magic := make([]byte, len(elf.ELFMAG))
	if n, _ := program.ReadAt(magic, 0); n < len(magic) || string(magic) != elf.ELFMAG {
		return nil
	}
	info, err := buildinfo.Read(program)
	if err != nil {
		return nil
	}
	toolchain, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	parts := []Part{goModule("stdlib", toolchain)}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Replace != nil && m.Replace.Version != "" {
			m = &debug.Module{Path: m.Replace.Path, Version: m.Replace.Version}
		}
		if version := strings.TrimPrefix(m.Version, "v"); m.Path != "" && version != "" && version != "(devel)" {
			parts = append(parts, goModule(m.Path, version))
		}
	}
	return parts
}

func goModule(path, version string) Part {
	return Part{
		Type: "library", Name: path, Version: version, PURL: "pkg:golang/" + path + "@v" + url.QueryEscape(version),
	}
}

// Make returns a CycloneDX document of parts, each once.
func Make(parts []Part) ([]byte, error) {
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(a.PURL, b.PURL), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(struct {
		Format     string `json:"bomFormat"`
		Spec       string `json:"specVersion"`
		Version    int    `json:"version"`
		Components []Part `json:"components"`
	}{"CycloneDX", "1.5", 1, slices.Compact(parts)})
	return out.Bytes(), err
}
