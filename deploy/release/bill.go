package release

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bills writes the bill of materials of each program, from what the program itself records.
func (m *maker) bills(arch string) error {
	for _, p := range programs {
		path := m.binary(p.name, arch)
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		program, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%s-linux-%s.cdx.json", p.name, m.Version, arch)
		if err := m.create(name, func(w io.Writer) error {
			e := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON)
			return e.SetPretty(true).EncodeVersion(m.bill(p.name, sha256.Sum256(program), info), cdx.SpecVersion1_6)
		}); err != nil {
			return err
		}
	}
	return nil
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// bill describes a program. It has neither a serial number nor a time but the commit's, so that the same program always
// has the same one.
func (m *maker) bill(name string, sum [sha256.Size]byte, info *debug.BuildInfo) *cdx.BOM {
	bom := cdx.NewBOM()
	main := m.component(&debug.Module{Path: module + name})
	main.Type, main.Name, main.PackageURL = cdx.ComponentTypeApplication, name, ""
	main.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	main.Properties = &[]cdx.Property{
		{Name: "garrison:commit", Value: m.tree.commit},
		{Name: "garrison:platform", Value: setting(info, "GOOS") + "/" + setting(info, "GOARCH")},
	}
	bom.Metadata = &cdx.Metadata{Timestamp: m.at().Format(time.RFC3339), Component: &main}
	parts := []cdx.Component{m.component(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})}
	for _, d := range info.Deps {
		parts = append(parts, m.component(d))
	}
	var refs []string
	for _, p := range parts {
		refs = append(refs, p.BOMRef)
	}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return bom
}

// component describes a module. Those of Garrison have the version of the release.
func (m *maker) component(d *debug.Module) cdx.Component {
	version := d.Version
	if own := strings.HasPrefix(d.Path, module); own {
		version = m.Version
	} else if d.Replace != nil {
		d, version = d.Replace, cmp.Or(d.Replace.Version, version)
	}
	purl := "pkg:golang/" + d.Path + "@" + version
	c := cdx.Component{
		BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: d.Path, Version: version, PackageURL: purl,
	}
	// The sum of a Go module is a SHA-256 in base64.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(d.Sum, "h1:")); err == nil && len(sum) > 0 {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c
}
