package sbom_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/sbom"
)

func cycloneDX(components string) string {
	return `{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [` + components + `]}`
}

func TestPackageURLsBecomeComponents(t *testing.T) {
	for purl, want := range map[string]sbom.Component{
		"pkg:golang/golang.org/x/net@v0.17.0#http2": {Ecosystem: "Go", Name: "golang.org/x/net", Version: "0.17.0"},
		"pkg:npm/%40babel/core@7.0.0":               {Ecosystem: "npm", Name: "@babel/core", Version: "7.0.0"},
		"pkg:maven/org.apache/log4j@2.0":            {Ecosystem: "Maven", Name: "org.apache:log4j", Version: "2.0"},
		"pkg:deb/debian/libssl3@3.0.11-1%2Bb1?upstream=openssl%403.0&distro=debian-12": {
			Ecosystem: "Debian", Release: "12", Name: "libssl3", Source: "openssl", Version: "3.0.11-1+b1",
		},
		"pkg:deb/ubuntu/bash@5.1+dfsg?distro=jammy": {
			Ecosystem: "Ubuntu", Release: "22.04", Name: "bash", Version: "5.1+dfsg",
		},
		"pkg:rpm/rocky/bash@5-1.el9?distro=rocky-9.3": {
			Ecosystem: "Rocky Linux", Release: "9.3", Name: "bash", Version: "5-1.el9",
		},
		"pkg:rpm/redhat/libs@1.1.1k-12.el8?epoch=1&upstream=openssl-1.1.1k-12.el8.src.rpm": {
			Ecosystem: "Red Hat", Name: "libs", Source: "openssl", Version: "1:1.1.1k-12.el8",
		},
		"pkg:golang/std@go1.21.1": {Ecosystem: "Go", Name: "stdlib", Version: "1.21.1"},
		"pkg:rpm/bash@5-1":        {Ecosystem: "rpm", Name: "bash", Version: "5-1"},
		"pkg:generic/openssl@3":   {Name: "openssl", Version: "3"},
		"pkg:pypi/Foo_Bar@1.0":    {Ecosystem: "PyPI", Name: "Foo_Bar", Version: "1.0"},
	} {
		have, err := sbom.Parse([]byte(cycloneDX(fmt.Sprintf(`{"name": "other", "purl": %q}`, purl))))
		if diff := cmp.Diff([]sbom.Component{want}, have); diff != "" || err != nil {
			t.Errorf("%s: %v: %s", purl, err, diff)
		}
	}
}

func TestComponentsWithinComponentsAreReadAndFilesAreNot(t *testing.T) {
	have, err := sbom.Parse([]byte(cycloneDX(`{"name": "a", "version": "1", "components": [{"name": "b"},
		{"type": "file", "name": "c"}]}, {"name": "a", "version": "1"}`)))
	want := []sbom.Component{{Name: "a", Version: "1"}, {Name: "b"}}
	if diff := cmp.Diff(want, have); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
}

func TestPackagesOfSPDXAreRead(t *testing.T) {
	have, err := sbom.Parse([]byte(`{"spdxVersion": "SPDX-2.2", "packages": [{"name": "a", "versionInfo": "1"},
		{"name": "b", "externalRefs": [{"referenceType": "purl", "referenceLocator": "pkg:npm/b@2"}]}]}`))
	want := []sbom.Component{{Name: "a", Version: "1"}, {Ecosystem: "npm", Name: "b", Version: "2"}}
	if diff := cmp.Diff(want, have); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
}

func TestAnSBOMThatCannotBeUsedIsRefusedByItsField(t *testing.T) {
	many := strings.Repeat(`{"name": "a"},`, 3)
	for text, want := range map[string]string{
		"":   "not JSON",
		"{}": "neither bomFormat CycloneDX nor a spdxVersion",
		`{"bomFormat": "CycloneDX", "specVersion": "1.3"}`:         `specVersion is "1.3"`,
		`{"spdxVersion": "SPDX-3.0"}`:                              `spdxVersion is "SPDX-3.0"`,
		cycloneDX(many + `{"version": "1"}`):                       "components[3].name is missing",
		cycloneDX(`{"name": "a", "purl": "npm/a"}`):                `components[0].purl "npm/a" is not a package URL`,
		cycloneDX(`{"name": "a", "purl": "pkg:npm/%zz"}`):          "is not a package URL",
		cycloneDX(`{"name": "a", "purl": "pkg:npm/a@%ff"}`):        "is not a package URL",
		cycloneDX(`{"name": "a", "purl": "pkg:npm/a%1b"}`):         "is not a package URL",
		cycloneDX(strings.Repeat(`{},`, 1_000_000) + "{}"):         "more than 1000000 objects",
		cycloneDX(thousands(50) + `{"name": "a"}`):                 "more than 50000 components",
		cycloneDX(`{"name": "a", "components": [{}]}`):             "components[0].components[0].name is missing",
		cycloneDX(`{"name": 1}`):                                   "components.name is a number, want a string",
		cycloneDX(`{"name": "` + strings.Repeat("a", 1025) + `"}`): "components[0].name has 1025 bytes",
		`{"spdxVersion": "SPDX-2.3", "packages": [{}]}`:            "packages[0].name is missing",
		strings.Repeat(" ", sbom.MaxBytes+1):                       "more than 16777216 bytes",
		cycloneDX(numbered(sbom.MaxComponents + 1)):                "more than 50000 components",
	} {
		_, err := sbom.Parse([]byte(text))
		if fault.RefusalOf(err).GetCode() != code.BadSbom || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
	}
}

// thousands returns so many thousand components, which are all the same.
func thousands(n int) string { return strings.Repeat(`{"name": "a"},`, n*1000) }

func numbered(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{"name": "a%d"}`, i))
	}
	return strings.Join(all, ",")
}

// The test itself is a program that Go built.
func TestAGoProgramHasItsModules(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	parts := sbom.OfGo(f)
	one, err := sbom.Make(parts)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(parts)
	if other, _ := sbom.Make(append(parts, parts[0])); !bytes.Equal(one, other) {
		t.Error("the same parts in another order have another SBOM")
	}
	all, err := sbom.Parse(one)
	has := func(name string) bool {
		return slices.ContainsFunc(all, func(c sbom.Component) bool {
			return c.Ecosystem == "Go" && c.Name == name && c.Version != ""
		})
	}
	if err != nil || !has("stdlib") { // the go command records no other module of a test
		t.Errorf("%v, %v", all, err)
	}
	if none := sbom.OfGo(strings.NewReader("#!/bin/sh")); none != nil {
		t.Errorf("a script has %v", none)
	}
}

func TestAPackageHasItsNameAndVersion(t *testing.T) {
	data, err := sbom.Make([]sbom.Part{sbom.Package("deb", "g++", "4:12.2-3+b1", "amd64")})
	if err != nil {
		t.Fatal(err)
	}
	have, err := sbom.Parse(data)
	want := []sbom.Component{{Ecosystem: "deb", Name: "g++", Version: "4:12.2-3+b1"}}
	if diff := cmp.Diff(want, have); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(cycloneDX(`{"name": "a", "purl": "pkg:npm/a@1"}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := sbom.Parse(data); err != nil && fault.RefusalOf(err).GetCode() != code.BadSbom {
			t.Errorf("%v is no refusal", err)
		}
	})
}
