package operator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// versionTally counts rows that are alike.
type versionTally map[versionRow]*versionRow

// add counts one of a kind, which is so since a time; zero means that it is not known.
func (t versionTally) add(like versionRow, since time.Time) {
	r, ok := t[like]
	if !ok {
		r = new(versionRow)
		*r = like
		t[like] = r
	}
	r.Count++
	if !since.IsZero() && (r.since.IsZero() || since.Before(r.since)) {
		r.since, r.Since = since, since.UTC().Format(time.RFC3339)
	}
}

// rows returns what was counted, executors first, by name and version.
func (t versionTally) rows() []versionRow {
	var out []versionRow
	for _, r := range t {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b versionRow) int {
		return cmp.Or(-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Version, b.Version), cmp.Compare(a.Wanted, b.Wanted))
	})
	return out
}

// versionChecks are what --check looks for. Each returns a sentence for each difference.
var versionChecks = []func([]versionRow) []string{servicesDiffer, clientDiffers, misfits, unlikeWanted}

// versionDifferences returns every difference that counts.
func versionDifferences(rows []versionRow) []string {
	var out []string
	for _, check := range versionChecks {
		out = append(out, check(rows)...)
	}
	return out
}

// servicesDiffer names the versions of the services' processes when there are several.
func servicesDiffer(rows []versionRow) []string {
	of := serviceVersions(rows)
	if len(of) < 2 {
		return nil
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, v+" ("+strings.Join(of[v], ", ")+")")
	}
	return []string{"services run " + strings.Join(parts, " and ")}
}

// serviceVersions lists the processes of services by version.
func serviceVersions(rows []versionRow) map[string][]string {
	of := map[string][]string{}
	for _, r := range rows {
		if r.Kind == kindService && r.Version != "" {
			of[r.Version] = append(of[r.Version], r.Name)
		}
	}
	return of
}

// clientDiffers compares this client with the services, when they run one version.
func clientDiffers(rows []versionRow) []string {
	of := serviceVersions(rows)
	var out []string
	for _, r := range rows {
		if r.Kind == kindClient && len(of) > 0 && of[r.Version] == nil {
			out = append(out, fmt.Sprintf("this client is %s, and services run %s",
				r.Version, strings.Join(slices.Sorted(maps.Keys(of)), " and ")))
		}
	}
	return out
}

// misfits names the processes that miss facts.
func misfits(rows []versionRow) []string {
	var out []string
	for _, r := range rows {
		if r.Misfits > 0 {
			out = append(out, r.Name+": "+r.Trouble)
		}
	}
	return out
}

// unlikeWanted names what runs on servers that want something else. Two versions that are wanted are no difference.
func unlikeWanted(rows []versionRow) []string {
	var out []string
	for _, r := range rows {
		if r.Wanted != "" && r.Wanted != r.Version {
			out = append(out, fmt.Sprintf("%s %s: %s, wanted %s, since %s",
				r.Kind, r.Name, plural(r.Count, "server")+" with "+dash(r.Version), r.Wanted, r.Since))
		}
	}
	return out
}
