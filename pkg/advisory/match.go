package advisory

import (
	"regexp"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/sbom"
	"github.com/garrison-fleet/garrison/pkg/version"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
)

// Verdict is whether a component is vulnerable.
type Verdict int

// The verdicts, each stronger than the one before.
const (
	No Verdict = iota
	Maybe
	Yes
)

// Match is a verdict, and the version in which the component is fixed when one is known.
type Match struct {
	Verdict Verdict
	FixedIn string
}

// underscores are what PEP 503 takes for the same.
var underscores = regexp.MustCompile(`[-_.]+`)

// Key returns the name under which packages of an ecosystem are found: names that an ecosystem takes for the same have
// the same key.
func Key(ecosystem, name string) string {
	name = strings.ToLower(name)
	if ecosystem == "PyPI" {
		return underscores.ReplaceAllString(name, "-")
	}
	return name
}

// In returns whether a component has a version of a range. A range without bounds has any.
func In(r version.Range, c sbom.Component) Match {
	if c.Version == "" {
		return Match{Verdict: Maybe}
	}
	sure := true
	has := r.HasBy(func(bound string) int {
		n, known := Compare(c.Ecosystem, c.Version, bound)
		sure = sure && known
		return n
	})
	return Match{Verdict: verdict(has, sure)}
}

// verdict returns what a comparison shows. One that is not sure excludes nothing.
func verdict(has, sure bool) Verdict {
	switch {
	case !sure:
		return Maybe
	case has:
		return Yes
	}
	return No
}

// Affects returns whether an advisory's package is the component, at a vulnerable version.
func Affects(a *catalogv1.Affected, c sbom.Component) Match {
	most := same(a, c)
	if most == No {
		return Match{}
	}
	if c.Version == "" {
		return Match{Verdict: Maybe, FixedIn: firstFixed(a)}
	}
	var best Match
	if slices.Contains(a.Versions, c.Version) {
		best = Match{Verdict: most}
	}
	for _, r := range a.Ranges {
		if v := min(most, within(a.Ecosystem, r, c.Version)); v > best.Verdict || v == best.Verdict && v > No {
			best = Match{Verdict: v, FixedIn: r.Fixed}
		}
	}
	return best
}

// firstFixed returns the first fixed version of a package.
func firstFixed(a *catalogv1.Affected) string {
	for _, r := range a.Ranges {
		if r.Fixed != "" {
			return r.Fixed
		}
	}
	return ""
}

// same returns whether the package is the component's, in the same release of its distribution.
func same(a *catalogv1.Affected, c sbom.Component) Verdict {
	key := Key(a.Ecosystem, a.Name)
	if key != Key(a.Ecosystem, c.Name) && key != Key(a.Ecosystem, c.Source) {
		return No
	}
	switch {
	case c.Ecosystem == "", slices.Contains([]string{"deb", "rpm", "apk"}, c.Ecosystem) && !languages[a.Ecosystem]:
		return Maybe // no distribution that is known
	case c.Ecosystem != a.Ecosystem:
		return No
	case a.Release == "" || c.Release == a.Release || strings.HasPrefix(c.Release, a.Release+"."):
		return Yes
	case c.Release == "":
		return Maybe
	}
	return No
}

// languages are the ecosystems that are no distributions.
var languages = map[string]bool{
	"Go": true, "npm": true, "crates.io": true, "PyPI": true, "Maven": true, "RubyGems": true, "NuGet": true,
	"Packagist": true, "Hex": true, "Pub": true, "GitHub Actions": true, "SwiftURL": true,
	"CRAN": true, "Hackage": true,
}

// within returns whether a range has a version.
func within(ecosystem string, r *catalogv1.AffectedRange, v string) Verdict {
	sure := true
	compare := func(bound string) int {
		c, known := Compare(ecosystem, v, bound)
		sure = sure && known
		return c
	}
	has := (r.Introduced == "" || r.Introduced == "0" || compare(r.Introduced) >= 0) &&
		(r.Fixed == "" || compare(r.Fixed) < 0) && (r.LastAffected == "" || compare(r.LastAffected) <= 0)
	return verdict(has, sure)
}
