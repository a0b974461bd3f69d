package sbom

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ecosystems are OSV's names of the types of package URLs.
var ecosystems = map[string]string{
	"golang": "Go", "npm": "npm", "cargo": "crates.io", "pypi": "PyPI", "maven": "Maven", "gem": "RubyGems",
	"nuget": "NuGet", "composer": "Packagist", "hex": "Hex", "pub": "Pub",
}

// distributions are OSV's names of the namespaces of package URLs of the types deb, rpm and apk.
var distributions = map[string]string{
	"debian": "Debian", "ubuntu": "Ubuntu", "alpine": "Alpine", "wolfi": "Wolfi", "redhat": "Red Hat",
	"rocky": "Rocky Linux", "rocky-linux": "Rocky Linux", "rockylinux": "Rocky Linux", "almalinux": "AlmaLinux",
	"suse": "SUSE", "opensuse": "openSUSE", "oracle": "Oracle", "fedora": "Fedora", "centos": "CentOS",
}

// parsePURL reads a package URL: pkg:TYPE/NAMESPACE/NAME@VERSION?QUALIFIERS#SUBPATH.
func parsePURL(text string) (c Component, ok bool) {
	rest, ok := strings.CutPrefix(text, "pkg:")
	if !ok {
		return c, false
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	kind, path, ok := strings.Cut(strings.TrimLeft(rest, "/"), "/")
	if !ok || kind == "" {
		return c, false
	}
	version := ""
	if at := strings.LastIndex(path, "@"); at > 0 {
		path, version = path[:at], path[at+1:]
	}
	path, err := url.PathUnescape(strings.Trim(path, "/"))
	if err != nil || path == "" {
		return c, false
	}
	if version, err = url.PathUnescape(version); err != nil {
		return c, false
	}
	q, err := url.ParseQuery(strings.ReplaceAll(query, "+", "%2B")) // a + of a version is one
	if err != nil {
		return c, false
	}
	c = named(strings.ToLower(kind), path, q)
	c.Version = trimVersion(c.Ecosystem, version)
	if epoch := q.Get("epoch"); epoch != "" && epoch != "0" && !strings.Contains(version, ":") {
		c.Version = epoch + ":" + c.Version
	}
	return c, isText(path + version + c.Source + c.Version)
}

// isText reports whether a text can be sent and printed.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// sourceRPM matches the version and release behind the name of a source package.
var sourceRPM = regexp.MustCompile(`-[^-]+-[^-]+\.src\.rpm$`)

// named returns a component without its version.
func named(kind, path string, q url.Values) Component {
	slash := strings.LastIndex(path, "/")
	namespace, name := path[:max(slash, 0)], path[slash+1:]
	switch kind {
	case "deb", "rpm", "apk":
		source, _, _ := strings.Cut(q.Get("upstream"), "@")
		return Component{
			Ecosystem: cmp.Or(distributions[strings.ToLower(namespace)], kind), Release: releaseOf(q.Get("distro")),
			Name: name, Source: sourceRPM.ReplaceAllString(source, ""),
		}
	case "golang":
		if path == "std" {
			path = "stdlib"
		}
	case "maven":
		path = strings.Replace(path, "/", ":", 1)
	}
	return Component{Ecosystem: ecosystems[kind], Name: path}
}

// codenames are the releases of distributions that package URLs name by a word.
var codenames = map[string]string{
	"buster": "10", "bullseye": "11", "bookworm": "12", "trixie": "13", "focal": "20.04", "jammy": "22.04",
	"noble": "24.04",
}

var release = regexp.MustCompile(`[0-9]+(\.[0-9]+)*`)

// releaseOf returns the release in the qualifier distro, such as debian-12 or bookworm.
func releaseOf(distro string) string {
	return cmp.Or(codenames[distro[strings.LastIndex(distro, "-")+1:]], release.FindString(distro))
}

// trimVersion returns a version as OSV writes it: those of Go have no v.
func trimVersion(ecosystem, version string) string {
	if ecosystem == "Go" {
		return strings.TrimPrefix(strings.TrimPrefix(version, "v"), "go")
	}
	return version
}
