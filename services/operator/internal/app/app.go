// Package app builds the commands of garrison app.
package app

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/listing"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/record"
)

type application = *applicationv1.Application

var table = listing.Listing[application]{
	Name: func(a application) string { return a.GetName() },
	Columns: append([]listing.Column[application]{
		listing.Col("NAME", application.GetName),
		listing.Col("DESCRIPTION", application.GetDescription),
		listing.Col("METADATA", func(a application) string { return listing.Pairs(a.GetMetadata()) }),
		listing.Wide("CREATED", func(a application) string { return listing.Stamp(a.GetCreatedAt()) }),
	}, record.LastChange[application]()...),
}

// Commands returns the command app with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return record.Commands(record.Noun[application]{
		Env:         env,
		Word:        "application",
		Unknown:     code.NotFound,
		Command:     "app",
		Example:     "net",
		Short:       "Group agents into applications.",
		Without:     "agents",
		Whose:       "its agents",
		Listing:     table,
		Blank:       func(name string) application { return &applicationv1.Application{Name: name} },
		SetMetadata: func(a application, m map[string]string) { a.Metadata = m },
		Flags: func(f *pflag.FlagSet, said *record.Edits[application], _ bool) {
			record.EditVar(f, said, "description", "a description, one `SENTENCE`", cli.ReadText(cli.AnyText),
				func(a application, v string) { a.Description = v })
		},
		On: func(string) string { return "all" },
	})
}
