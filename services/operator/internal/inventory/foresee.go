package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// Foresee adds to changes of label rules how many servers meet them, and to changes of defaults how many servers
// would get their agents now. What needs an environment or an agent that the same plan creates has no servers yet. A
// plan that is one default sets it only as long as it installs what was shown. Unless atOnce is set, a plan that would
// install an agent on many servers at once, by a default or by moves of servers, is refused as a whole.
func Foresee(ctx context.Context, env *cli.Env, plan *declare.Plan, atOnce bool) error {
	visible := len(plan.Visible())
	if err := foreseeMoves(ctx, env, plan, atOnce); err != nil {
		return err
	}
	for i, c := range plan.Changes {
		plan.Changes[i].AtOnce, c.AtOnce = atOnce, atOnce
		if c.Action != declare.Create && c.Action != declare.Update {
			continue
		}
		if rule, ok := c.Next.(*labelrulev1.LabelRule); ok {
			if err := foreseeRule(ctx, env, &plan.Changes[i], rule, visible); err != nil {
				return err
			}
		}
		next, ok := c.Next.(*environmentv1.Default)
		if !ok {
			continue
		}
		q := defaultRequest(c, next)
		r, err := cli.Call[*registryv1.PlanDefaultsResponse](ctx, env,
			&registryv1.PlanDefaultsRequest{Ask: &registryv1.PlanDefaultsRequest_Set{Set: q}})
		if fault.Is(err, fault.NotFound) && visible > 1 {
			continue
		}
		if err != nil {
			return err
		}
		now, waiting := work.Installs(r.GetPlans())
		plan.Changes[i].Note = fmt.Sprintf("installs the agent on %s now; %d wait", listing.Plural(now, "server"),
			waiting)
		if visible == 1 {
			plan.Changes[i].PlanSha256 = r.GetPlanSha256()
		}
	}
	return nil
}

// foreseeRule notes how many servers meet the conditions of a rule.
func foreseeRule(ctx context.Context, env *cli.Env, c *declare.Change, rule *labelrulev1.LabelRule, visible int) error {
	q := ruleRequest(*c, rule)
	q.Record.GetLabelRule().Owners = nil
	set, _, err := cli.Put[*labelrulev1.LabelRule](client.WithDryRun(ctx), env, q)
	switch {
	case errors.Is(err, client.ErrDryRun):
	case fault.Is(err, fault.NotFound) && visible > 1, fault.Is(err, fault.Invalid) && visible > 1:
		return nil // its environment, or the room for it, comes with the same plan; otherwise the registry refuses it
	case err != nil:
		return err
	}
	c.Note = "matches " + listing.Plural(int(set.GetMatches()), "server")
	return nil
}

// movedAPart bounds the servers of one request to plan a move.
const movedAPart = 900

// foreseeMoves has the registry refuse moves of many servers to an environment whose defaults would reach all of them
// at once.
func foreseeMoves(ctx context.Context, env *cli.Env, plan *declare.Plan, atOnce bool) error {
	moved := map[string][]string{} // by environment
	for _, c := range plan.Changes {
		have, was := c.Have.(*serverv1.Server)
		next, is := c.Next.(*serverv1.Server)
		if c.Action == declare.Update && was && is && have.GetEnvironment() != next.GetEnvironment() {
			moved[next.GetEnvironment()] = append(moved[next.GetEnvironment()], have.GetId())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(moved)) {
		if name == "" {
			continue
		}
		for part := range slices.Chunk(moved[name], movedAPart) {
			q := &registryv1.MoveServersRequest{
				On: &intentv1.Selector{Servers: part}, Environment: name, AtOnce: atOnce,
			}
			_, err := cli.Call[*registryv1.PlanDefaultsResponse](ctx, env,
				&registryv1.PlanDefaultsRequest{Ask: &registryv1.PlanDefaultsRequest_Move{Move: q}})
			if err != nil && !fault.Is(err, fault.NotFound) { // its environment may come with the same plan
				return err
			}
		}
	}
	return nil
}

// Row is one line of a shown plan.
type Row = declare.Shown

// Listing is how a plan is printed.
var Listing = listing.Listing[Row]{
	Name: func(r Row) string { return r.Kind + "/" + r.Name },
	Columns: []listing.Column[Row]{
		listing.Col("ACTION", func(r Row) string { return r.Action }),
		listing.Col("KIND", func(r Row) string { return r.Kind }),
		listing.Col("NAME", func(r Row) string { return r.Name }),
		listing.Col("FIELD", func(r Row) string { return r.Field }),
		listing.Col("BEFORE", func(r Row) string { return r.Before }),
		listing.Col("AFTER", func(r Row) string { return r.After }),
		listing.Col("NOTE", func(r Row) string { return r.Note }),
	},
}

// Rows returns the lines of a plan: one for each field that changes, and one for an object without any. Of a secret
// they show only that it is one, and JSON of metadata without its mark.
func Rows(plan *declare.Plan) []Row {
	out := []Row{}
	for _, c := range plan.Changes {
		row := Row{Action: string(c.Action), Kind: c.Kind.Word, Name: c.Name}
		if len(c.Fields) == 0 || c.Note != "" {
			out = append(out, Row{Action: row.Action, Kind: row.Kind, Name: row.Name, Note: c.Note})
		}
		for _, f := range c.Fields {
			row.Field, row.Before, row.After, row.Note = f.Path, metadata.Text(f.Before), metadata.Text(f.After), f.Note
			out = append(out, row)
		}
	}
	out = append(out, plan.Shown...)
	for _, skipped := range plan.Skipped {
		out = append(out, Row{Action: "skip", Kind: skipped.Kind, Name: skipped.Name, Note: skipped.Reason})
	}
	return out
}

// Show prints a plan. Without a change it prints nothing in a table. A table has one line for a map of a new object.
func Show(env *cli.Env, plan *declare.Plan) error {
	rows := Rows(plan)
	if env.Output.IsTable() {
		if len(rows) == 0 {
			return nil
		}
		rows = folded(rows)
	}
	return output.Show(env.Output, Listing, any(rows), rows)
}

// folded returns lines with one for all values of a map of a new object.
func folded(rows []Row) []Row {
	out := []Row{}
	for _, r := range rows {
		field, key, isMap := strings.Cut(r.Field, ".")
		if r.Action != string(declare.Create) || !isMap || r.Before != "" || r.Note != "" {
			out = append(out, r)
			continue
		}
		pair := key + "=" + r.After
		last := len(out) - 1
		if last >= 0 && out[last].Action == r.Action && out[last].Kind == r.Kind && out[last].Name == r.Name &&
			out[last].Field == field {
			out[last].After += "," + pair
			continue
		}
		r.Field, r.After = field, pair
		out = append(out, r)
	}
	return out
}
