package versions

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// versionChecks are the checks of --check. Each returns a sentence per difference.
var versionChecks = []func([]row) []string{servicesDiffer, clientDiffers, misfits, unlikeWanted}

// versionDifferences returns every difference that --check reports.
func versionDifferences(rows []row) []string {
	var out []string
	for _, check := range versionChecks {
		out = append(out, check(rows)...)
	}
	return out
}

// servicesDiffer returns the versions of the services' processes if there are several.
func servicesDiffer(rows []row) []string {
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

// serviceVersions returns the names of services by version, one for each process.
func serviceVersions(rows []row) map[string][]string {
	of := map[string][]string{}
	for _, r := range rows {
		if r.Kind == kindService && r.Version != "" {
			of[r.Version] = append(of[r.Version], r.Name)
		}
	}
	return of
}

// clientDiffers reports a client whose version no service runs.
func clientDiffers(rows []row) []string {
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

// misfits returns the processes that could not apply facts.
func misfits(rows []row) []string {
	var out []string
	for _, r := range rows {
		if r.Misfits > 0 {
			out = append(out, r.Name+": "+r.Trouble)
		}
	}
	return out
}

// unlikeWanted returns what runs on servers where another version is wanted. Two versions that are both wanted do not
// differ.
func unlikeWanted(rows []row) []string {
	var out []string
	for _, r := range rows {
		if r.Wanted != "" && r.Wanted != r.Version {
			out = append(out, fmt.Sprintf("%s %s: %s, wanted %s, since %s",
				r.Kind, r.Name, output.Plural(r.Count, "server")+" with "+output.Dash(r.Version), r.Wanted, r.Since))
		}
	}
	return out
}
