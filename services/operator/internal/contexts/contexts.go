package contexts

import (
	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/client"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// row is a saved context without its credentials.
type row struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Actor   string `json:"actor"`
	Role    string `json:"role"`
	Expires string `json:"expires,omitempty"`
	Current bool   `json:"current"`
}

type rows struct {
	Contexts []row `json:"contexts"`
}

var listing = output.Listing[row]{
	Name: func(c row) string { return c.Name },
	Columns: []output.Column[row]{
		output.Col("NAME", func(c row) string { return c.Name }),
		output.Col("CURRENT", func(c row) string { return output.Yes(c.Current) }),
		output.Col("URL", func(c row) string { return c.URL }),
		output.Col("ACTOR", func(c row) string { return c.Actor }),
		output.Col("ROLE", func(c row) string { return c.Role }),
		expires(func(c row) string { return c.Expires }),
	},
}

// Commands returns the command context with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("context", "Save and select connections to control planes.",
		&cobra.Command{
			Use:     "add NAME FILE",
			Example: "  garrison context add site operator.json",
			Short:   "Save a context file under a name.", Args: cli.Exactly("NAME", "FILE"),
			RunE: func(_ *cobra.Command, a []string) error { return add(env, a[0], a[1]) },
		},
		&cobra.Command{
			Use:     "list",
			Example: "  garrison context list",
			Short:   "List saved contexts.", Args: cli.Exactly(),
			RunE: func(*cobra.Command, []string) error { return list(env) },
		},
		&cobra.Command{
			Use:     "use NAME",
			Example: "  garrison context use site",
			Short:   "Select the context that commands use.", Args: cli.Exactly("NAME"),
			RunE: func(_ *cobra.Command, a []string) error { return use(env, a[0]) },
		},
		showCommand(env), removeCommand(env))
}

func add(env *cli.Env, name, file string) error {
	if err := cli.CheckPath(file, "garrisond writes operator.json to its data directory"); err != nil {
		return cli.Usage("%v", err)
	}
	saved, err := client.SavedContexts(env.Getenv)
	if err != nil {
		return cli.Usage("%v", err)
	}
	first := saved.Current() == ""
	c, err := saved.Add(name, file)
	if err != nil {
		return cli.Exit{Code: cli.ExitUsage, Err: err}
	}
	env.Say("context %s saved: %s as %s", name, c.URL, c.Actor)
	if until := expiresOf(c); past(env.Output.View(), until) {
		env.Say("its credentials expired at %s, so the bus refuses them", until)
	}
	if first {
		env.Say("context %s selected", name)
	}
	return nil
}

func use(env *cli.Env, name string) error {
	saved, err := client.SavedContexts(env.Getenv)
	if err != nil {
		return cli.Usage("%v", err)
	}
	if err := saved.Use(name); err != nil {
		return err
	}
	env.Say("context %s selected", name)
	return nil
}

func list(env *cli.Env) error {
	saved, err := client.SavedContexts(env.Getenv)
	if err != nil {
		return cli.Usage("%v", err)
	}
	list := rows{Contexts: []row{}}
	for _, name := range saved.Names() {
		c, err := saved.Read(name)
		if err != nil {
			return err
		}
		list.Contexts = append(list.Contexts,
			row{name, c.URL, c.Actor, c.Role, expiresOf(c), name == saved.Current()})
	}
	return output.Show(env.Output, listing, list, list.Contexts)
}
