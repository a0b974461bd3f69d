package advisory

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
)

// The bounds of a record's texts, in bytes. A summary is cut, and a severity that is longer is left out.
const (
	maxID       = 128
	maxText     = 512
	maxSummary  = 200
	maxSeverity = 128
	maxAliases  = 2000 // a notice of a kernel has hundreds
)

// osv has the fields of a record that are read.
type osv struct {
	ID        string   `json:"id"`
	Aliases   []string `json:"aliases"`
	Related   []string `json:"upstream"` // of a distribution: the CVE that it fixes
	Summary   string   `json:"summary"`
	Details   string   `json:"details"`
	Withdrawn string   `json:"withdrawn"`
	Severity  []struct {
		Score string `json:"score"`
	} `json:"severity"`
	Specific struct {
		Severity any `json:"severity"`
	} `json:"database_specific"`
	Affected []osvAffected `json:"affected"`
}

type osvAffected struct {
	Package *struct {
		Ecosystem string `json:"ecosystem"`
		Name      string `json:"name"`
	} `json:"package"`
	Versions []string `json:"versions"`
	Ranges   []struct {
		Type   string  `json:"type"`
		Events []event `json:"events"`
	} `json:"ranges"`
}

// event is where a range of versions begins or ends; one of its fields is set.
type event struct {
	Introduced   string `json:"introduced"`
	Fixed        string `json:"fixed"`
	LastAffected string `json:"last_affected"`
}

// recordOf returns what is kept of a record.
func recordOf(raw []byte) (a *catalogv1.Advisory, withdrawn bool, err error) {
	var o osv
	if err := json.Unmarshal(raw, &o); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, false, fmt.Errorf("%s is a %s, want a %s", wrong.Field, wrong.Value, wrong.Type.Kind())
		}
		return nil, false, err
	}
	a = &catalogv1.Advisory{
		Id: o.ID, Aliases: append(o.Aliases, o.Related...), Summary: cut(o.Summary + firstLine(o)),
		Severity: severityOf(o),
	}
	switch {
	case o.ID == "":
		return nil, false, errors.New("id is missing")
	case len(a.Aliases) > maxAliases:
		return nil, false, fmt.Errorf("%s has %d aliases, want at most %d", cut(o.ID), len(a.Aliases), maxAliases)
	}
	for _, id := range append([]string{o.ID}, a.Aliases...) {
		if len(id) > maxID {
			return nil, false, fmt.Errorf("the id %.40q has %d bytes, want at most %d", id, len(id), maxID)
		}
	}
	for i, f := range o.Affected {
		one, err := affectedOf(f)
		if err != nil {
			return nil, false, fmt.Errorf("%s: affected[%d].%w", o.ID, i, err)
		}
		if one != nil {
			a.Affected = append(a.Affected, one)
		}
	}
	if len(a.Affected) == 0 && o.Withdrawn == "" {
		return nil, false, fmt.Errorf("%s: affected names no version of a package", o.ID)
	}
	return a, o.Withdrawn != "", nil
}

// firstLine returns the first line of the details of a record that has no summary.
func firstLine(o osv) string {
	if o.Summary != "" {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(o.Details), "\n")
	return line
}

// cut cuts a text after maxSummary bytes.
func cut(text string) string {
	if len(text) <= maxSummary {
		return strings.ToValidUTF8(text, "")
	}
	n := maxSummary
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

func severityOf(o osv) string {
	word, _ := o.Specific.Severity.(string)
	if word == "" && len(o.Severity) > 0 {
		word = o.Severity[len(o.Severity)-1].Score
	}
	if len(word) > maxSeverity {
		return ""
	}
	return strings.ToValidUTF8(word, "")
}

// number is the release in the name of an ecosystem, such as Debian:12 or Ubuntu:22.04:LTS.
var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)*`)

// enterprise is the release of Red Hat Enterprise Linux in the name of a stream of a product, such as
// enterprise_linux:8::baseos, openshift:4.12::el8 or rhel_eus:8.6::baseos.
var enterprise = regexp.MustCompile(`(?:\bel|enterprise_linux:|rhel_[a-z0-9]+:)([0-9]+)`)

// releaseOf returns the release of a distribution in the name of an ecosystem; empty when it names none.
func releaseOf(ecosystem, text string) string {
	if ecosystem != "Red Hat" {
		return number.FindString(text)
	}
	if m := enterprise.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// affectedOf returns a package that is affected; nil when it names commits only.
func affectedOf(f osvAffected) (*catalogv1.Affected, error) {
	if f.Package == nil {
		return nil, nil
	}
	ecosystem, release, _ := strings.Cut(f.Package.Ecosystem, ":")
	switch {
	case ecosystem == "":
		return nil, errors.New("package.ecosystem is missing")
	case f.Package.Name == "":
		return nil, errors.New("package.name is missing")
	case len(f.Package.Name) > maxText || len(f.Package.Ecosystem) > maxText:
		return nil, fmt.Errorf("package has a name of more than %d bytes", maxText)
	}
	a := &catalogv1.Affected{Ecosystem: ecosystem, Release: releaseOf(ecosystem, release), Name: f.Package.Name}
	for i, r := range f.Ranges {
		if r.Type == "GIT" {
			continue
		}
		ranges, err := rangesOf(ecosystem, r.Events)
		if err != nil {
			return nil, fmt.Errorf("ranges[%d].%w", i, err)
		}
		a.Ranges = append(a.Ranges, ranges...)
	}
	for _, v := range f.Versions {
		has := func(r *catalogv1.AffectedRange) bool { return within(ecosystem, r, v) == Yes }
		if !slices.ContainsFunc(a.Ranges, has) {
			a.Versions = append(a.Versions, v)
		}
	}
	if len(a.Ranges) == 0 && len(a.Versions) == 0 {
		return nil, nil
	}
	return a, nil
}

// rangesOf returns the ranges that events begin and end, which may come in any order.
func rangesOf(ecosystem string, events []event) (all []*catalogv1.AffectedRange, err error) {
	at := func(e event) string { return cmp.Or(e.Introduced, e.Fixed, e.LastAffected) }
	for i, e := range events {
		if len(at(e)) > maxText {
			return nil, fmt.Errorf("events[%d] has %d bytes, want at most %d", i, len(at(e)), maxText)
		}
	}
	slices.SortStableFunc(events, func(x, y event) int {
		switch "0" { // which stands for before any version
		case y.Introduced:
			return 1
		case x.Introduced:
			return -1
		}
		c, _ := Compare(ecosystem, at(x), at(y))
		return c
	})
	var open *catalogv1.AffectedRange
	for _, e := range events {
		switch {
		case e.Introduced != "":
			open = &catalogv1.AffectedRange{Introduced: e.Introduced}
			all = append(all, open)
		case open != nil && at(e) != "": // a second end of the same range says nothing
			open.Fixed, open.LastAffected, open = e.Fixed, e.LastAffected, nil
		}
	}
	if len(all) == 0 && len(events) > 0 {
		return nil, errors.New("events introduce no version")
	}
	return all, nil
}
