package inventory

import (
	"strings"

	"github.com/garrison-fleet/garrison/pkg/metadata"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Row is one line of a shown plan.
type Row struct {
	Action string `json:"action"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Field  string `json:"field,omitempty"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Note   string `json:"note,omitempty"`
}

// Listing is how a plan is printed.
var Listing = output.Listing[Row]{
	Name: func(r Row) string { return r.Kind + "/" + r.Name },
	Columns: []output.Column[Row]{
		output.Col("ACTION", func(r Row) string { return r.Action }),
		output.Col("KIND", func(r Row) string { return r.Kind }),
		output.Col("NAME", func(r Row) string { return r.Name }),
		output.Col("FIELD", func(r Row) string { return r.Field }),
		output.Col("BEFORE", func(r Row) string { return r.Before }),
		output.Col("AFTER", func(r Row) string { return r.After }),
		output.Col("NOTE", func(r Row) string { return r.Note }),
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
	for _, s := range plan.Shown {
		out = append(out, Row{s.Action, s.Kind, s.Name, s.Field, s.Before, s.After, s.Note})
	}
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
