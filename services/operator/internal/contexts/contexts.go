// Package contexts builds the commands of garrison context, which save connections to control planes.
package contexts

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/trust"

	"github.com/garrison-fleet/garrison/services/operator/internal/auth"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
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
	File    string `json:"file"`
}

type rows struct {
	Contexts []row `json:"contexts"`
}

var table = listing.Listing[row]{
	Name: func(c row) string { return c.Name },
	Columns: []listing.Column[row]{
		listing.Col("NAME", func(c row) string { return c.Name }),
		listing.Col("CURRENT", func(c row) string { return listing.Yes(c.Current) }),
		listing.Col("URL", func(c row) string { return c.URL }),
		listing.Col("ACTOR", func(c row) string { return c.Actor }),
		listing.Col("ROLE", func(c row) string { return c.Role }),
		expires(func(c row) string { return c.Expires }),
		listing.Wide("FILE", func(c row) string { return c.File }),
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
		tokenCommand(env), removeCommand(env))
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
			row{name, c.URL, c.Actor, c.Role, expiresOf(c), name == saved.Current(), c.File})
	}
	return output.Show(env.Output, table, list, list.Contexts)
}

// expiresOf returns when the credentials of a context expire, or "".
func expiresOf(c trust.Context) string {
	if _, until := trust.Times(c.JWT); !until.IsZero() {
		return until.UTC().Format(time.RFC3339)
	}
	return ""
}

// past reports whether a time that expiresOf returned has come.
func past(v listing.View, until string) bool {
	t, err := time.Parse(time.RFC3339, until)
	return err == nil && !v.At.Before(t)
}

// expires returns the column of the time until which credentials are valid, which marks those that have expired.
func expires[T any](of func(T) string) listing.Column[T] {
	return listing.Column[T]{Title: "EXPIRES", Key: of, Value: func(v listing.View, row T) string {
		if until := of(row); past(v, until) {
			return until + " (expired)"
		}
		return of(row)
	}}
}

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

var identities = listing.Listing[identity]{
	Name: func(i identity) string { return i.Actor },
	Columns: []listing.Column[identity]{
		listing.Col("ACTOR", func(i identity) string { return i.Actor }),
		listing.Col("ROLE", func(i identity) string { return i.Role }),
		listing.Col("MAY", func(i identity) string { return i.May }),
		expires(func(i identity) string { return i.Expires }),
		listing.Col("URL", func(i identity) string { return i.URL }),
		listing.Col("CONTEXT", func(i identity) string { return i.Context }),
		listing.Col("FILE", func(i identity) string { return i.File }),
	},
}

// rights is what each role may do, in words.
var rights = map[string]string{
	"viewer":   "read",
	"operator": "read, change servers and records",
	"admin":    "read, change servers and records, admit servers and users",
	"reporter": "report external instances",
	"approver": "see rollouts, approve and reject their waves",
	"auditor":  "read the copy of the ledger, with NATS clients",
}

func identityOf(name string, c trust.Context) identity {
	i := identity{Context: name, File: c.File, URL: c.URL, Actor: c.Actor, Role: c.Role, May: rights[c.Role]}
	i.Expires = expiresOf(c)
	return i
}

// WhoamiCommand returns the command whoami.
func WhoamiCommand(env *cli.Env) *cobra.Command {
	var can string
	c := &cobra.Command{
		Use: "whoami", Args: cli.Exactly(),
		Example: "  garrison whoami\n  garrison whoami --can install\n  garrison whoami --can \"enroll server\"\n" +
			"  garrison whoami --can all",
		Short: "Show who you are to the control plane: user, role, what the role may do, and until when.",
		Long: `Show who you are to the control plane: user, role, what the role may do, and until when. The control
plane is asked: revoked or expired credentials are refused with the exit code 4. Without a connection, garrison
context list prints what contexts say.

With --can, print yes and exit with 0 when you may do something, or print no and exit with 1. The answer is computed
from the permissions that the bus enforces for your role, which is the same on every server. Verbs are those of intents
(install, upgrade, configure, remove, undo …) and of the services' methods; --can all lists all of them.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.FindContext(env.ContextName, env.Getenv)
			if err != nil {
				return cli.Exit{Code: cli.ExitUsage, Err: err}
			}
			if _, err := env.Client(cmd.Context()); err != nil { // the bus accepts the credentials, or refuses them
				return err
			}
			role, err := fleet.RoleNow(cmd.Context(), env, c)
			if err != nil {
				return err
			}
			if can != "" {
				return auth.Can(cmd.Context(), env, c, role, strings.Fields(can))
			}
			c.Role = string(role)
			return output.ShowOne(env.Output, env.Output.View(), identities, identityOf(env.ContextName, c))
		},
	}
	cli.TextVar(c.Flags(), &can, "can", cli.NotEmpty("verb"), "say whether you may do this: a `VERB`, a verb and a "+
		"noun in quotes, or all")
	return c
}

func tokenCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "token", Args: cli.Exactly(),
		Example: "  garrison context token\n  garrison context token --context site",
		Short:   "Print the credentials of the context as a bearer token, for the HTTP API.",
		Long: `Print the credentials of the context as a bearer token, for the HTTP API. A request with it acts as the
user of the context, until the credentials expire or are revoked. Keep it as secret as the context's file.`,
		RunE: func(*cobra.Command, []string) error {
			c, err := client.FindContext(env.ContextName, env.Getenv)
			if err != nil {
				return cli.Exit{Code: cli.ExitUsage, Err: err}
			}
			_, err = fmt.Fprintln(env.Out, c.Bearer())
			return err
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
