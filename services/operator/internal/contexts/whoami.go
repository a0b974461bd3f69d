package contexts

import (
	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/trust"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// identity is a context without its secrets.
type identity struct {
	Context string `json:"context,omitempty"`
	File    string `json:"file"`
	URL     string `json:"url"`
	Actor   string `json:"actor"`
	Role    string `json:"role"`
	May     string `json:"may"`
	Expires string `json:"expires,omitempty"`
}

var identities = output.Listing[identity]{
	Name: func(i identity) string { return i.Actor },
	Columns: []output.Column[identity]{
		output.Col("ACTOR", func(i identity) string { return i.Actor }),
		output.Col("ROLE", func(i identity) string { return i.Role }),
		output.Col("MAY", func(i identity) string { return i.May }),
		expires(func(i identity) string { return i.Expires }),
		output.Col("URL", func(i identity) string { return i.URL }),
		output.Col("CONTEXT", func(i identity) string { return i.Context }),
		output.Col("FILE", func(i identity) string { return i.File }),
	},
}

// rights is what each role may do, in words.
var rights = map[string]string{
	"viewer":   "read",
	"operator": "read, change servers and records",
	"admin":    "read, change servers and records, admit servers and users",
	"reporter": "report external instances",
	"approver": "see rollouts, approve and reject their waves",
}

func identityOf(name string, c trust.Context) identity {
	i := identity{Context: name, File: c.File, URL: c.URL, Actor: c.Actor, Role: c.Role, May: rights[c.Role]}
	i.Expires = expiresOf(c)
	return i
}

// WhoamiCommand returns the command whoami.
func WhoamiCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Example: "  garrison whoami", Args: cli.Exactly(),
		Short: "Show who you are to the control plane: user, role, what the role may do, and until when.",
		Long: `Show who you are to the control plane: user, role, what the role may do, and until when.

The control plane is asked: revoked or expired credentials are refused with the exit code 4. Without a connection,
garrison context show NAME prints what a context says.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.FindContext(env.ContextName, env.Getenv)
			if err != nil {
				return cli.Exit{Code: cli.ExitUsage, Err: err}
			}
			role, err := fleet.RoleNow(cmd.Context(), env, c)
			if err != nil {
				return err
			}
			c.Role = string(role)
			return output.ShowOne(env.Output, env.Output.View(), identities, identityOf(env.ContextName, c))
		},
	}
}

func showCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Example: "  garrison context show site", Short: "Show a saved context without its secrets.",
		Args: cli.Exactly("NAME"),
		RunE: func(_ *cobra.Command, a []string) error {
			saved, err := client.SavedContexts(env.Getenv)
			if err != nil {
				return cli.Usage("%v", err)
			}
			c, err := client.FindContext(a[0], env.Getenv)
			if err != nil {
				return err
			}
			name := a[0]
			if name == saved.Current() {
				name += " (selected)"
			}
			return output.ShowOne(env.Output, env.Output.View(), identities, identityOf(name, c))
		},
	}
}

func removeCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Aliases: []string{"delete", "remove"}, Example: "  garrison context rm site",
		Short: "Delete a saved context, with its credentials.", Args: cli.Exactly("NAME"),
		RunE: func(_ *cobra.Command, a []string) error {
			saved, err := client.SavedContexts(env.Getenv)
			if err != nil {
				return cli.Usage("%v", err)
			}
			if err := saved.Remove(a[0]); err != nil {
				return err
			}
			env.Say("context %s deleted", a[0])
			return nil
		},
	}
}
