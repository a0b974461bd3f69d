// Package auth implements garrison whoami --can, which answers what the caller may do.
package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

var table = listing.Listing[action]{
	Name: action.name,
	Columns: []listing.Column[action]{
		listing.Col("VERB", func(a action) string { return a.Verb }),
		listing.Col("NOUN", func(a action) string { return a.Noun }),
		listing.Col("ALLOWED", func(a action) string { return answer(a.Allowed) }),
		listing.Col("ACCESS", func(a action) string { return a.Access }),
		listing.Wide("SERVICE", func(a action) string { return a.Service }),
		listing.Wide("METHOD", func(a action) string { return a.Method }),
	},
}

func answer(allowed bool) string {
	if allowed {
		return "yes"
	}
	return "no"
}

// All is the word for everything that one can ask for.
const All = "all"

// Can prints whether the caller may do something, named by a verb and perhaps a noun; of All, it lists everything.
// The bus has to accept the credentials, and the role is that of the key.
func Can(ctx context.Context, env *cli.Env, who trust.Context, role topology.Role, words []string) error {
	all := decided(role, who.Actor)
	if slices.Equal(words, []string{All}) {
		once := slices.CompactFunc(all, func(a, b action) bool {
			return a.name() == b.name() && a.Service == b.Service
		})
		return output.Show(env.Output, table, once, once)
	}
	if len(words) == 0 || len(words) > 2 {
		return cli.Usage("--can takes a verb, a verb and a noun, or all. Try: garrison whoami --can all")
	}
	return one(env, verdict{Actor: who.Actor, Role: string(role)}, words, all)
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
	found := meant(verb, noun, all)
	if len(found) == 0 {
		return unknown(verb, noun, all)
	}
	refused := []string{}
	for _, a := range found {
		if !a.Allowed && !slices.Contains(refused, a.name()) {
			refused = append(refused, a.name())
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

// meant returns the actions that a verb, with a noun or alone, stands for: the words of a command, of an action, or of
// either in the other order, as in token create.
func meant(verb, noun string, all []action) []action {
	for _, words := range [][2]string{{verb, noun}, {noun, verb}} {
		if names := commands[strings.TrimSpace(words[0]+" "+words[1])]; len(names) > 0 {
			return slices.DeleteFunc(slices.Clone(all), func(a action) bool {
				return !slices.Contains(names, a.name())
			})
		}
	}
	for _, words := range [][2]string{{verb, noun}, {noun, verb}} {
		if found := named(words[0], singular(words[1]), all); len(found) > 0 {
			return found
		}
	}
	return nil
}

// named returns the actions with a verb and a noun, or with any noun for "".
func named(verb, noun string, all []action) (found []action) {
	for _, a := range all {
		if sameVerb(a.Verb, verb) && (noun == "" || a.Noun == noun || a.Method == "" && noun == intentNoun(a.Verb)) {
			found = append(found, a)
		}
	}
	return found
}

func (a action) name() string { return strings.TrimSpace(a.Verb + " " + a.Noun) }

// synonyms are other words for verbs.
var synonyms = map[string]string{
	"up": "upgrade", "restart": "upgrade", "get": "show", "enrol": "enroll", "invite": "enroll", "change": "update",
	"label": "update", "rollback": "undo", "uninstall": "remove", "rm": "delete", "start": "rollout",
	"pause": "control", "resume": "control", "abort": "control", "approve": "answer", "reject": "answer",
}

func sameVerb(have, asked string) bool { return have == asked || have == synonyms[asked] }

func unknown(verb, noun string, all []action) error {
	var names []string
	for _, a := range all {
		names = append(names, a.name())
	}
	text := fmt.Sprintf("nothing is called %q", strings.TrimSpace(verb+" "+noun))
	if near := nearest.Name(strings.TrimSpace(verb+" "+noun), slices.Values(names)); near != "" {
		text += ". Nearest: " + near
	}
	return cli.Usage("%s. Try: garrison whoami --can all", text)
}

// Asks returns what the words of a command ask for, as Can does: the names of actions; none when they are not known.
func Asks(words []string) (names []string) {
	words = append(words, "")
	for _, a := range meant(words[0], words[1], actions()) {
		names = append(names, a.name())
	}
	return names
}

// records are what is kept as a record: their commands put, delete and list records.
var records = []string{"agent", "app", "env", "labelrule", "label-rule", "hold"}

// commands are the commands that no action is called like, with the actions that they ask for.
var commands = commandActions()

func commandActions() map[string][]string {
	out := map[string][]string{
		"apply": {"put record"}, "block": {"add block"}, "unblock": {"delete record"},
		"block list": {"list record"}, "bus": {"show bus"}, "env default": {"set default"},
		"events": {"read fact"}, "explain": {"show server"}, "exposed": {"list exposed"},
		"export": {"list record"}, "hold": {"put record"},
		"image export": {"show image", "show chunk"}, "image import": {"create image", "put chunk"},
		"instance list": {"list instance"}, "instance report": {"report external"}, "logs": {"read log"},
		"server accept": {"accept lobby"}, "server reject": {"reject lobby"}, "rollout start": {"rollout"},
		"restore": {"show restore-status"}, "server clean": {"record clean-up"}, "status": {"count server"},
		"task show": {"show task"}, "unhold": {"delete record"}, "versions": {"list writer"},
		"channel remove": {"demote image"},
		"image prune":    {"delete image"}, "import ansible": {"enroll server", "put record"},
		"import triton": {"enroll server", "put record"}, "instance adopt": {"adopt"}, "instance release": {"release"},
		"instance show": {"list instance"}, "label-rule set": {"put record"}, "label-rule unset": {"delete record"},
		"server refresh": {"refresh"}, "server reinstall": {"reinstall"},
		"server set":     {"update server", "move server"},
		"source publish": {"list image", "show image", "show chunk"},
		"source sync":    {"list source", "create image", "put chunk", "record sync"},
		"watch":          {"show intent-progress"}, "cancel": {"withdraw intent", "cancel task"},
		"env diff": {"list default"}, "channel diff": {"list channel", "list image"},
	}
	for _, noun := range records {
		out[noun+" create"], out[noun+" update"] = []string{"put record"}, []string{"put record"}
		out[noun+" delete"] = []string{"delete record"}
		out[noun+" list"], out[noun+" show"] = []string{"list record"}, []string{"list record"}
	}
	return out
}
