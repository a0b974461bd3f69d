package versions

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/version"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
)

// versionChecks are the checks of --check. Each returns a sentence per difference.
var versionChecks = []func([]row) []string{servicesDiffer, clientDiffers, executorsAhead, misfits, unlikeWanted}

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

// executorsAhead returns the executors that are newer than a service: they may report what it does not know.
func executorsAhead(rows []row) []string {
	of := slices.Sorted(maps.Keys(serviceVersions(rows)))
	var out []string
	for _, r := range rows {
		newer := func(service string) bool { return version.Newer(r.Version, service) }
		if r.Kind == kindExecutor && slices.ContainsFunc(of, newer) {
			out = append(out, fmt.Sprintf("%s with executor %s, newer than the services (%s): upgrade these first",
				listing.Plural(r.Count, "server"), r.Version, strings.Join(of, " and ")))
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
				r.Kind, r.Name, listing.Plural(r.Count, "server")+" with "+listing.Dash(r.Version), r.Wanted, r.Since))
		}
	}
	return out
}

// versionTally counts equal rows.
type versionTally map[row]*row

// add counts one row, in its state since a time; zero means that the time is unknown.
func (t versionTally) add(like row, since time.Time) {
	r, ok := t[like]
	if !ok {
		r = new(row)
		*r = like
		t[like] = r
	}
	r.Count++
	if !since.IsZero() && (r.since.IsZero() || since.Before(r.since)) {
		r.since, r.Since = since, since.UTC().Format(time.RFC3339)
	}
}

// rows returns the counted rows, executors first, sorted by name and version.
func (t versionTally) rows() []row {
	var out []row
	for _, r := range t {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b row) int {
		return cmp.Or(-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Version, b.Version), cmp.Compare(a.Wanted, b.Wanted))
	})
	return out
}

// fleetVersions counts executors and agents by the version that runs and the one that is wanted.
func fleetVersions(ctx context.Context, env *cli.Env) ([]row, error) {
	kinds, err := fleet.Agents(ctx, env)
	if err != nil {
		return nil, err
	}
	instances, err := fleet.Instances(ctx, env, &registryv1.ListInstancesRequest{WithExecutors: true})
	return fleetRows(kinds, instances), err
}

// fleetRows counts instances by the version that runs and the one that is wanted. Of an executor that was installed on
// its machine, it is not known since when it runs.
func fleetRows(agents []*agentv1.Agent, instances []display.Instance) []row {
	self := map[string]bool{}
	for _, a := range agents {
		self[a.GetName()] = a.GetKind() == agentv1.Kind_KIND_SELF
	}
	t := versionTally{}
	for _, r := range instances {
		i := r.GetInstance()
		row := row{
			Kind:    kindAgent,
			Name:    i.GetAgent(),
			Version: i.GetObserved().GetVersion(),
			Wanted:  i.GetWanted().GetVersion(),
		}
		since := i.GetSince().AsTime()
		if r.GetByHand() {
			since = time.Time{}
		}
		if self[i.GetAgent()] || r.GetByHand() {
			row.Kind = kindExecutor
		}
		t.add(row, since)
	}
	return t.rows()
}
