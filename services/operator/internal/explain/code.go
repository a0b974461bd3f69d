package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/nearest"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Command returns the command explain.
func Command(env *cli.Env) *cobra.Command {
	var codes []string
	for _, e := range code.All() {
		codes = append(codes, e.Code)
	}
	var every bool
	c := &cobra.Command{
		Use:   "explain CODE | AGENT | SERVER [AGENT] | --codes",
		Short: "Explain an error code, or the state of a server or agent.",
		Example: "  garrison explain NO_MATCH\n" +
			"  garrison explain beacon\n" +
			"  garrison explain web-1 beacon\n" +
			"  garrison explain --codes",
		Args: cli.AtMost("CODE, AGENT or SERVER", "AGENT"), ValidArgs: codes,
		RunE: func(c *cobra.Command, a []string) error {
			switch {
			case every && len(a) > 0:
				return cli.Usage("--codes lists every code, and excludes %s", a[0])
			case !every && len(a) == 0:
				return cli.Usage("CODE, AGENT or SERVER is missing. Try: garrison server list")
			case every:
				return output.Show(env.Output, meaningListing, meaningList{meanings()}, meanings())
			}
			if e, ok := code.Lookup(a[0]); ok && len(a) == 1 {
				width := env.Output.Width
				env.Output.Width = func() int { return cmp.Or(width(), cli.PipedWidth) }
				return output.ShowOne(env.Output, env.Output.View(), meaningListing, meaningOf(e))
			}
			if len(a) == 1 && isCodeLike(a[0]) {
				return fault.Refusef(fault.NotFound, code.NotFound, "unknown code %s (%d searched)", a[0], len(codes)).
					Near(nearest.Name(a[0], slices.Values(codes))).Try("garrison explain --codes")
			}
			if len(a) == 1 {
				agent, err := fleet.Agent(c.Context(), env, a[0])
				if err != nil {
					return err
				}
				if agent != nil {
					return explainAgent(c.Context(), env, agent)
				}
			}
			return explainServer(c.Context(), env, a[0], a[1:])
		},
	}
	c.Flags().BoolVar(&every, "codes", false, "list every code with its meaning")
	return c
}

// isCodeLike reports whether a name is written like a code. Names of servers have no capitals.
func isCodeLike(name string) bool {
	return name == strings.ToUpper(name) && strings.ContainsAny(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")
}

// meanings returns every code with its meaning, sorted by code.
func meanings() []codeMeaning {
	var out []codeMeaning
	for _, e := range code.All() {
		out = append(out, meaningOf(e))
	}
	return out
}

type codeMeaning struct {
	Code    string `json:"code"`
	Meaning string `json:"meaning"`
	Try     string `json:"try"`
}

func meaningOf(e code.Entry) codeMeaning {
	return codeMeaning{Code: e.Code, Meaning: e.Meaning, Try: e.Remedy}
}

type meaningList struct {
	Codes []codeMeaning `json:"codes"`
}

var meaningListing = listing.Listing[codeMeaning]{
	Name: func(c codeMeaning) string { return c.Code },
	Columns: []listing.Column[codeMeaning]{
		listing.Col("CODE", func(c codeMeaning) string { return c.Code }),
		listing.Col("MEANING", func(c codeMeaning) string { return c.Meaning }),
		listing.Wide("TRY", func(c codeMeaning) string { return c.Try }),
	},
}
