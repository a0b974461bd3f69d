// Package auth implements garrison auth, which answers what the caller may do.
package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

var listing = output.Listing[action]{
	Name: func(a action) string { return strings.TrimSpace(a.Verb + " " + a.Noun) },
	Columns: []output.Column[action]{
		output.Col("VERB", func(a action) string { return a.Verb }),
		output.Col("NOUN", func(a action) string { return a.Noun }),
		output.Col("ALLOWED", func(a action) string { return answer(a.Allowed) }),
		output.Col("ACCESS", func(a action) string { return a.Access }),
		output.Wide("SERVICE", func(a action) string { return a.Service }),
		output.Wide("METHOD", func(a action) string { return a.Method }),
	},
}

func answer(allowed bool) string {
	if allowed {
		return "yes"
	}
	return "no"
}

// Commands returns the command auth with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("auth", "Show what you may do.", canICommand(env))
}

func canICommand(env *cli.Env) *cobra.Command {
	var list bool
	var on selector.Flags
	c := &cobra.Command{
		Use: "can-i [VERB] [NOUN]", Short: "Report whether you may do something; exits with 1 when you may not.",
		Long: `Report whether you may do something: print yes and exit with 0, or print no and exit with 1.

The answer is computed from the permissions that the bus enforces for your role, and the bus has to accept your
credentials. Verbs are those of intents (install, upgrade, configure, remove, undo …) and of the services' methods;
--list prints all of them. A role is valid on every server: --on checks that the selector names servers that exist.`,
		Example: "  garrison auth can-i install --on env=prod\n" +
			"  garrison auth can-i enroll server\n" +
			"  garrison auth can-i --list",
		Args: cli.AtMost("VERB", "NOUN"),
		RunE: func(c *cobra.Command, a []string) error {
			if list == (len(a) > 0) {
				return cli.Usage("garrison auth can-i takes either a VERB or --list. Try: garrison auth can-i --help")
			}
			who, err := client.FindContext(env.ContextName, env.Getenv)
			if err != nil {
				return cli.Exit{Code: cli.ExitUsage, Err: err}
			}
			if err := checkServers(c.Context(), env, on); err != nil {
				return err
			}
			role, err := fleet.RoleNow(c.Context(), env, who)
			if err != nil {
				return err
			}
			all := decided(role, who.Actor)
			if list {
				return output.Show(env.Output, listing, all, all)
			}
			return one(env, verdict{Actor: who.Actor, Role: string(role)}, a, all)
		},
	}
	on.Add(c)
	c.Flags().BoolVar(&list, "list", false, "list everything, and whether you may")
	return c
}

// decided returns all actions with what a role may.
func decided(role topology.Role, actor string) []action {
	var p topology.Permissions
	if slices.Contains(topology.Roles, role) {
		p = topology.RolePermissions(role)
	}
	all := actions()
	for n, a := range all {
		all[n].Allowed = p.MayPublish(actor, a.subject(actor))
	}
	return all
}

// checkServers connects, so that the bus accepts the credentials or refuses them, and refuses a selector of no server.
func checkServers(ctx context.Context, env *cli.Env, on selector.Flags) error {
	if _, err := env.Client(ctx); err != nil {
		return err
	}
	filter, err := on.Filter()
	if err != nil || filter == nil {
		return err
	}
	return matchSome(ctx, env, filter)
}

func matchSome(ctx context.Context, env *cli.Env, filter *intentv1.Selector) error {
	r, err := cli.Call[*registryv1.CountServersResponse](ctx, env, &registryv1.CountServersRequest{
		Filter: &registryv1.ListServersRequest{On: filter},
	})
	if err != nil {
		return err
	}
	if r.GetCounts().GetTotal() == 0 {
		return cli.Usage("--on: no server matches. Try: garrison server list")
	}
	return nil
}

// verdict is the answer about one verb. Its JSON is promised: keys are only added.
type verdict struct {
	Actor   string   `json:"actor"`
	Role    string   `json:"role"`
	Verb    string   `json:"verb"`
	Noun    string   `json:"noun"`
	Allowed bool     `json:"allowed"`
	Refused []string `json:"refused"` // what of it is not allowed
}

// one prints the answer about one action.
func one(env *cli.Env, v verdict, words []string, all []action) error {
	words = append(words, "")
	verb, noun := strings.ToLower(words[0]), singular(strings.ToLower(words[1]))
	var found []action
	for _, a := range all {
		if sameVerb(a.Verb, verb) && (noun == "" || a.Noun == noun || a.Method == "" && noun == intentNoun(a.Verb)) {
			found = append(found, a)
		}
	}
	if len(found) == 0 {
		return unknown(verb, noun, all)
	}
	refused := []string{}
	for _, a := range found {
		if name := strings.TrimSpace(a.Verb + " " + a.Noun); !a.Allowed && !slices.Contains(refused, name) {
			refused = append(refused, name)
		}
	}
	v.Verb, v.Noun, v.Allowed, v.Refused = verb, noun, len(refused) == 0, refused
	if err := output.ShowDocument(env.Output, v, answer(v.Allowed)+"\n"); err != nil || v.Allowed {
		return err
	}
	return cli.Exit{
		Code: cli.ExitError,
		Err:  fmt.Errorf("%s (%s) may not %s", v.Actor, v.Role, strings.Join(refused, ", ")),
	}
}

// synonyms are other words for verbs.
var synonyms = map[string]string{
	"up": "upgrade", "get": "show", "enrol": "enroll", "invite": "enroll", "change": "update", "label": "update",
	"rollback": "undo", "uninstall": "remove", "logs": "read", "rm": "delete", "hold": "set", "unhold": "unset",
	"start": "rollout", "pause": "control", "resume": "control", "abort": "control", "approve": "answer",
	"reject": "answer",
}

func sameVerb(have, asked string) bool { return have == asked || have == synonyms[asked] }

func unknown(verb, noun string, all []action) error {
	var names []string
	for _, a := range all {
		names = append(names, strings.TrimSpace(a.Verb+" "+a.Noun))
	}
	text := fmt.Sprintf("nothing is called %q", strings.TrimSpace(verb+" "+noun))
	if near := nearest.Name(strings.TrimSpace(verb+" "+noun), slices.Values(names)); near != "" {
		text += ". Nearest: garrison auth can-i " + near
	}
	return cli.Usage("%s. Try: garrison auth can-i --list", text)
}
