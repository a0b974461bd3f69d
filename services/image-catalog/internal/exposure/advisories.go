package exposure

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/advisory"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/sbom"
	"github.com/garrison-fleet/garrison/pkg/version"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
)

// Upload is all advisories of a source, as one import brought them.
type Upload struct {
	Source     *catalogv1.AdvisorySource
	Advisories []*catalogv1.Advisory
}

// Advisories are the advisories of all sources.
type Advisories struct {
	sources []*catalogv1.AdvisorySource // by name
	byID    map[string][]*catalogv1.Advisory
	count   int
}

// NewAdvisories returns the advisories of uploads, one for each source.
func NewAdvisories(uploads []Upload) *Advisories {
	a := &Advisories{byID: map[string][]*catalogv1.Advisory{}}
	for _, u := range uploads {
		a.sources = append(a.sources, u.Source)
		a.count += len(u.Advisories)
		for _, one := range u.Advisories {
			for _, id := range append([]string{one.Id}, one.Aliases...) {
				if id = strings.ToUpper(id); !slices.Contains(a.byID[id], one) {
					a.byID[id] = append(a.byID[id], one)
				}
			}
		}
	}
	slices.SortFunc(a.sources, func(x, y *catalogv1.AdvisorySource) int { return cmp.Compare(x.Name, y.Name) })
	return a
}

// Sources returns the sources, by name.
func (a *Advisories) Sources() []*catalogv1.AdvisorySource { return a.sources }

// Source returns a source by name, or nil.
func (a *Advisories) Source(name string) *catalogv1.AdvisorySource {
	for _, s := range a.sources {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// anID matches what is the id of an advisory rather than the name of a package.
var anID = regexp.MustCompile(`(?i)^(CVE-[0-9]{4}-[0-9]+|GHSA(-[0-9a-z]{4}){3})$|` +
	`^[A-Z][A-Za-z]+-[0-9]{4}[-:][0-9A-Za-z:.-]+$|^(DSA|DLA|DTSA|USN|LSN|OSV|MAL|PYSEC|RUSTSEC)-[0-9A-Za-z-]+$`)

// Ask returns the advisories that a subject names, and the queries that find what it is about: the id of an advisory,
// or a package with perhaps a range of versions behind an @.
func (a *Advisories) Ask(subject string) ([]*catalogv1.Advisory, []Query, error) {
	if named := a.byID[strings.ToUpper(subject)]; len(named) > 0 {
		return named, queriesOf(named), nil
	}
	if anID.MatchString(subject) {
		return nil, nil, fault.Refusef(fault.NotFound, code.UnknownAdvisory,
			"no advisory has the id %.80s; the catalog has %d", subject, a.count).
			Try("garrison advisory list")
	}
	name, within := subject, version.Range{}
	if at := strings.LastIndex(subject, "@"); at > 0 { // a scope of npm begins with one
		var err error
		name = subject[:at]
		if within, err = version.ParseRange(subject[at+1:]); err != nil {
			return nil, nil, fault.Refusef(fault.Invalid, code.Invalid, "%v", err).
				Try("garrison exposed '" + name + "@<2.0.0'")
		}
	}
	if name == "" || len(subject) > maxSubject {
		return nil, nil, fault.Refusef(fault.Invalid, code.Invalid,
			"want the name of a package or the id of an advisory, of %d bytes at most", maxSubject)
	}
	return nil, packageQueries(name, within), nil
}

// maxSubject bounds what can be asked for, in bytes.
const maxSubject = 1024

// packageQueries returns the queries for a package. Only names of PyPI have another key than all others.
func packageQueries(name string, within version.Range) []Query {
	keys := map[string]bool{advisory.Key("", name): true, advisory.Key("PyPI", name): true}
	var out []Query
	for key := range keys {
		out = append(out, Query{key, func(c sbom.Component) advisory.Match {
			if key != advisory.Key(c.Ecosystem, c.Name) && key != advisory.Key(c.Ecosystem, c.Source) ||
				c.Ecosystem != "PyPI" && key != advisory.Key("", name) {
				return advisory.Match{}
			}
			return advisory.In(within, c)
		}})
	}
	return out
}

// queriesOf returns a query for each package that advisories are about.
func queriesOf(all []*catalogv1.Advisory) []Query {
	byKey := map[string][]*catalogv1.Affected{}
	for _, a := range all {
		for _, f := range a.Affected {
			// A component of an unknown ecosystem has the key of no ecosystem.
			for _, key := range slices.Compact([]string{advisory.Key(f.Ecosystem, f.Name), advisory.Key("", f.Name)}) {
				byKey[key] = append(byKey[key], f)
			}
		}
	}
	var out []Query
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		out = append(out, Query{key, func(c sbom.Component) (best advisory.Match) {
			for _, f := range byKey[key] {
				m := advisory.Affects(f, c)
				if m.Verdict > best.Verdict || best.FixedIn == "" && m.Verdict == best.Verdict {
					best = m
				}
			}
			return best
		}})
	}
	return out
}
