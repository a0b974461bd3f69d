// Package sbom reads and makes lists of the components that an image is made of.
//
// An SBOM is CycloneDX JSON (1.4 to 1.6) or SPDX JSON (2.2, 2.3). In an image it is the first file of the archive, by
// the name Name, so that the digest of the image covers it.
//
//	components, err := sbom.Parse(data)
//
// Guarantees:
//
//  1. Parse refuses what it does not understand (BAD_SBOM) and names the field.
//  2. Parse takes at most MaxBytes and MaxComponents.
//  3. Make returns the same bytes for the same components, in any order.
package sbom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Name is the name of the SBOM at the top of an image.
const Name = "garrison-sbom.json"

// The bounds of an SBOM.
const (
	MaxBytes      = 16 << 20
	MaxComponents = 50_000
	maxObjects    = 1_000_000 // of JSON, components and what belongs to them
	maxText       = 1024      // of a name, a version or a package URL, in bytes
)

// Component is one package that an image is made of.
type Component struct {
	Ecosystem string // as OSV names it: Go, npm, PyPI, Debian; deb or rpm of an unknown distribution; empty if unknown
	Release   string // of the distribution, such as 12; empty if unknown
	Name      string // as the ecosystem names it
	Source    string // the package that a distribution built it from, when it has another name
	Version   string // empty if unknown
}

// document has the fields of both formats that are read.
type document struct {
	Format  string `json:"bomFormat"` // of CycloneDX
	Spec    string `json:"specVersion"`
	SPDX    string `json:"spdxVersion"` // of SPDX
	Subject struct {
		Component *cycloneDX `json:"component"`
	} `json:"metadata"`
	Components []cycloneDX `json:"components"`
	Packages   []spdx      `json:"packages"`
}

var (
	cycloneDXVersions = []string{"1.4", "1.5", "1.6"}
	spdxVersions      = []string{"SPDX-2.2", "SPDX-2.3"}
)

// Parse reads the components of an SBOM, each once, in the order of the document. What has neither a package URL nor a
// version is left out of a document's subject only.
func Parse(data []byte) ([]Component, error) {
	if len(data) > MaxBytes {
		return nil, refuse("it has more than %d bytes", MaxBytes)
	}
	if bytes.Count(data, []byte("{")) > maxObjects { // before they take memory
		return nil, refuse("it has more than %d objects", maxObjects)
	}
	var d document
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF")), &d); err != nil {
		return nil, unreadable(err)
	}
	if err := d.checkVersion(); err != nil {
		return nil, err
	}
	l := list{seen: map[Component]bool{}}
	err := l.document(&d)
	return l.all, err
}

func (d *document) checkVersion() error {
	switch {
	case d.Format == "CycloneDX" && !slices.Contains(cycloneDXVersions, d.Spec):
		return refuse("specVersion is %.40q, want one of %v", d.Spec, cycloneDXVersions)
	case d.Format == "CycloneDX":
		return nil
	case d.SPDX == "":
		return refuse("it has neither bomFormat CycloneDX nor a spdxVersion")
	case !slices.Contains(spdxVersions, d.SPDX):
		return refuse("spdxVersion is %.40q, want one of %v", d.SPDX, spdxVersions)
	}
	return nil
}

// document reads what a document lists.
func (l *list) document(d *document) (err error) {
	if d.Format != "CycloneDX" {
		d.Subject.Component, d.Components = nil, nil
	} else {
		d.Packages = nil
	}
	if s := d.Subject.Component; s != nil && (s.PURL != "" || s.Version != "" || len(s.Components) > 0) {
		err = l.cycloneDX(&place{list: "metadata.component", n: -1}, *s)
	}
	for i := 0; i < len(d.Components) && err == nil; i++ {
		err = l.cycloneDX(&place{list: "components", n: i}, d.Components[i])
	}
	for i := 0; i < len(d.Packages) && err == nil; i++ {
		err = l.spdx(&place{list: "packages", n: i}, d.Packages[i])
	}
	return err
}

func unreadable(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return refuse("%s is a %s, want a %s", wrong.Field, wrong.Value, wrong.Type.Kind())
	}
	return refuse("it is not JSON: %v", err)
}

func refuse(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.BadSbom, "the SBOM cannot be used: "+format, args...).
		Try("garrison image build --help")
}

// list collects components.
type list struct {
	all  []Component
	seen map[Component]bool
	read int // how many were read, also those that were there before
}

// place is where a document describes a component, as the path that a refusal names.
type place struct {
	within *place
	list   string
	n      int
}

// String returns the path, such as components[3].components[0].
func (p *place) String() string {
	if p.n < 0 {
		return p.list
	}
	at := fmt.Sprintf("%s[%d]", p.list, p.n)
	if p.within != nil {
		return p.within.String() + "." + at
	}
	return at
}

// add adds a component that a document describes at a field.
func (l *list) add(field *place, name, version, purl string) error {
	if l.read++; l.read > MaxComponents {
		return refuse("it has more than %d components", MaxComponents)
	}
	for _, t := range []struct{ field, text string }{{"name", name}, {"version", version}, {"purl", purl}} {
		if len(t.text) > maxText {
			return refuse("%s.%s has %d bytes, want at most %d", field, t.field, len(t.text), maxText)
		}
	}
	if name == "" {
		return refuse("%s.name is missing", field)
	}
	c := Component{Name: name, Version: version}
	if purl != "" {
		var ok bool
		if c, ok = parsePURL(purl); !ok {
			return refuse("%s.purl %.80q is not a package URL", field, purl)
		}
		if c.Version == "" {
			c.Version = trimVersion(c.Ecosystem, version)
		}
	}
	if l.seen[c] {
		return nil
	}
	l.seen[c] = true
	l.all = append(l.all, c)
	return nil
}

// cycloneDX is a component of CycloneDX.
type cycloneDX struct {
	Type       string      `json:"type"`
	Group      string      `json:"group"`
	Name       string      `json:"name"`
	Version    string      `json:"version"`
	PURL       string      `json:"purl"`
	Components []cycloneDX `json:"components"`
}

// cycloneDX adds a component and those within it. Single files are no packages.
func (l *list) cycloneDX(field *place, c cycloneDX) error {
	if c.Type != "file" || c.PURL != "" {
		if err := l.add(field, path.Join(c.Group, c.Name), c.Version, c.PURL); err != nil {
			return err
		}
	}
	for i, inner := range c.Components {
		if err := l.cycloneDX(&place{within: field, list: "components", n: i}, inner); err != nil {
			return err
		}
	}
	return nil
}

// spdx is a package of SPDX.
type spdx struct {
	Name    string `json:"name"`
	Version string `json:"versionInfo"`
	Refs    []struct {
		Type    string `json:"referenceType"`
		Locator string `json:"referenceLocator"`
	} `json:"externalRefs"`
}

func (l *list) spdx(field *place, p spdx) error {
	purl := ""
	for _, r := range p.Refs {
		if r.Type == "purl" && purl == "" {
			purl = r.Locator
		}
	}
	return l.add(field, p.Name, p.Version, purl)
}
