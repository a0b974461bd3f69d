package cli

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/nearest"
)

// meant returns the command that an unknown one most likely stands for: the words of another tool, a verb and a noun in
// either order, or a similar spelling. The order matters: uninstall is similar to install and means remove. It is nil
// when nothing is near.
func meant(c *cobra.Command, args []string) *cobra.Command {
	words := append(strings.Fields(strings.ToLower(strings.Join(args, " "))), "")
	first, second, named := words[0], words[1], len(args) > 1
	if c.HasParent() {
		return cmp.Or(command(c, otherWords[c.Name()+" "+first]), known(c, first, named),
			known(c.Root(), first, named), similar(c, first))
	}
	named = len(args) > 2
	if both := command(c, otherWords[first+" "+second]); both != nil { // gh auth login
		return both
	}
	if noun := nounMeant(c, second); noun != nil { // kubectl get nodes
		if !noun.HasSubCommands() {
			return noun
		}
		if verb := cmp.Or(known(noun, first, named), similar(noun, first)); verb != nil {
			return verb
		}
	}
	noun := nounMeant(c, first)
	if noun != nil && second != "" { // nomad node status
		if verb := cmp.Or(known(noun, second, named), similar(noun, second)); verb != nil {
			return verb
		}
	}
	if noun != nil && strings.HasSuffix(first, "s") {
		noun = cmp.Or(known(noun, "list", false), noun)
	}
	return cmp.Or(command(c, otherWords[first]), noun, known(c, first, named), similar(c, first))
}

// command returns the command of a path below the root, or nil.
func command(c *cobra.Command, path string) *cobra.Command {
	found, _, err := c.Root().Find(strings.Fields(path))
	if err != nil || path == "" {
		return nil
	}
	return found
}

// nounMeant returns the noun that a word stands for: its name, a plural of it, or what other tools call it.
func nounMeant(root *cobra.Command, word string) *cobra.Command {
	for _, name := range []string{word, strings.TrimSuffix(word, "s"), otherNouns[strings.TrimSuffix(word, "s")]} {
		for _, c := range root.Commands() {
			if c.Name() == name && (c.GroupID == "noun" || name == "context" || name == "events" || name == "bus") {
				return c
			}
		}
	}
	return nil
}

// known returns the command below another one that a word is a name of or is known to stand for. Words that mean a list
// and an object, such as get, mean the object when something is named.
func known(c *cobra.Command, word string, named bool) (found *cobra.Command) {
	for _, v := range c.Commands() {
		switch {
		case v.Name() == word || slices.Contains(v.Aliases, word):
			return v
		case slices.Contains(v.SuggestFor, word) && (found == nil || named && v.Name() == "show"):
			found = v
		}
	}
	return found
}

// similar returns the command below another one whose name is spelled like a word, or begins with it.
func similar(c *cobra.Command, word string) *cobra.Command {
	var names []string
	for _, v := range c.Commands() {
		if !v.Hidden {
			names = append(names, v.Name())
		}
	}
	near := nearest.Name(word, slices.Values(names))
	for _, name := range names {
		if near == "" && len(word) > 2 && strings.HasPrefix(name, word) {
			near = name
		}
	}
	return known(c, near, false)
}

// flagMeant returns the flag that an unknown one most likely stands for, with its value where that is known.
func flagMeant(c *cobra.Command, name string) string {
	for _, f := range otherFlags[name] {
		if c.Flags().Lookup(f.flag) != nil {
			return f.text
		}
	}
	switch {
	case slices.Contains([]string{"y", "yes", "force", "assume-yes"}, name):
		return "nothing; " + c.CommandPath() + " does not ask for confirmation"
	case slices.Contains([]string{"version", "to", "tag"}, name) && strings.Contains(c.Use, "AGENT[@"):
		return "AGENT@VERSION"
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest.Name(name, slices.Values(names)); near != "" && len(name) > 1 {
		return "--" + near
	}
	return ""
}

// unexpected refuses the arguments behind the first few, and names the command line that has a place for the next one.
func unexpected(c *cobra.Command, args []string, few int) error {
	if line := RenamedTo(c, args); line != "" {
		return Usage("%s: unexpected argument %q. Try: %s", c.CommandPath(), args[few], fault.Hint(line))
	}
	path := c.CommandPath()
	for _, a := range args[:few] {
		path += " " + listing.Quote(a)
	}
	try := c.CommandPath() + " --help"
	if place := placeOf(c, args[few], few > 0); place != "" {
		try = path + place + listing.Quote(args[few])
	} else if other := sibling(c); few == 0 && other != "" {
		try = other + " " + listing.Quote(args[few])
	}
	return Usage("%s: unexpected argument %q. Try: %s", c.CommandPath(), args[few], fault.Hint(try))
}

// placeOf returns what belongs before a further argument in the same command line: a version behind the agent, the
// servers, or a file; "" when it has no place there.
func placeOf(c *cobra.Command, extra string, behind bool) string {
	switch {
	case behind && strings.Contains(c.Use, "AGENT[@") && extra != "" && strings.Contains("0123456789", extra[:1]):
		return "@"
	case behind && c.Flags().Lookup("on") != nil:
		return " --on "
	case behind && strings.HasSuffix(c.Use, " --channel CHANNEL"):
		return " --channel "
	case !behind && strings.HasSuffix(c.Use, " --on SELECTOR"):
		return " --on "
	case !behind && c.Flags().Lookup("file") != nil:
		return " -f "
	}
	return ""
}

// sibling returns the command that shows one of what another one lists or sums up; "" without one.
func sibling(c *cobra.Command) string {
	if c.CommandPath() == "garrison status" {
		return "garrison explain"
	}
	if c.Name() == "list" && c.HasParent() {
		for _, s := range c.Parent().Commands() {
			if s.Name() == "show" {
				return s.CommandPath()
			}
		}
	}
	return ""
}

// verbWords are other words for verbs of nouns, by verb. They are named as the nearest command, and never run.
var verbWords = map[string][]string{
	"list":     {"get", "all", "get-contexts", "current-context", "current", "members", "history"},
	"show":     {"get", "describe", "inspect", "info", "status", "view", "cat", "logs"},
	"create":   {"new", "add", "make"},
	"delete":   {"rm", "remove", "destroy", "del"},
	"update":   {"edit", "set", "patch", "change"},
	"cancel":   {"stop", "kill", "delete", "abort"},
	"use":      {"use-context", "set-context", "select", "switch"},
	"import":   {"push", "upload", "load"},
	"export":   {"pull", "download", "save"},
	"build":    {"pack", "package"},
	"activate": {"enable"},
	"set":      {"tag", "annotate", "edit", "update"},

	"quarantine": {"drain", "cordon", "ban", "isolate"},
	"release":    {"uncordon", "unban"},
}

// verbAliases are the words that stand for a verb, by verb.
var verbAliases = map[string][]string{"list": {"ls"}}

// nameVerbs adds to the verbs of a noun the words that people know them by.
func nameVerbs(verbs []*cobra.Command) {
	for _, v := range verbs {
		v.Aliases = append(v.Aliases, verbAliases[v.Name()]...)
		v.SuggestFor = append(v.SuggestFor, verbWords[v.Name()]...)
	}
}

// otherNouns are the nouns that other tools call by another word, by that word in the singular.
var otherNouns = map[string]string{
	"node": "server", "host": "server", "machine": "server", "client": "server", "inventory": "server",
	"pod": "instance", "unit": "instance", "alloc": "instance", "allocation": "instance", "deployment": "instance",
	"service": "instance", "release": "instance", "process": "instance",
	"job": "task", "eval": "task", "namespace": "env", "environment": "env", "application": "app", "chart": "image",
	"package": "image", "config": "context", "event": "events", "request": "intent", "cluster": "bus", "role": "user",
}

// otherWords are the commands that users of kubectl, nomad, helm, systemctl, ansible and gh mean by other words. A word
// of one command alone is in its SuggestFor.
var otherWords = byWord(map[string]string{
	"agent show": "cat, values, template", "apply": "playbook", "bus": "cluster-info",
	"cancel": "job stop", "channel list": "channel show", "check": "test, lint, verify",
	"configure":   "edit, reload, daemon-reload",
	"context add": "login, auth login", "context list": "config-view", "context rm": "logout, auth logout",
	"events": "monitor", "explain": "describe, show", "hold": "disable, mask", "image": "repo",
	"image activate": "image publish", "image build": "package, pack", "image export": "pull",
	"image import": "push, image add", "image list": "search", "image promote": "channel add",
	"install": "deploy, run, add, start, enable, scale", "man": "doc",
	"instance list": "get, ps, is-active, is-enabled, list-units",
	"logs":          "journalctl, agent logs, instance logs", "remove": "stop, agent remove",
	"restart": "rollout restart, bounce",
	"rollout": "deployment", "server set": "label", "server list": "ls, list, ping, inventory, members",
	"server quarantine": "drain, cordon, taint", "server release": "uncordon", "server show": "facts",
	"status": "ui, web, dashboard", "unhold": "unmask", "up --dry-run": "plan",
	"whoami": "auth, auth status, auth whoami",
})

// byWord returns the commands of paths by the words for them.
func byWord(paths map[string]string) map[string]string {
	out := map[string]string{}
	for path, words := range paths {
		for _, word := range strings.Split(words, ", ") {
			out[word] = path
		}
	}
	return out
}

// OtherWords returns the words of other tools with the commands that they stand for.
func OtherWords() map[string]string { return maps.Clone(otherWords) }

// otherFlag is a flag that other words mean where a command has it, and how it is written.
type otherFlag struct{ flag, text string }

func onServers() []otherFlag { return []otherFlag{{"on", "--on SELECTOR"}, {"label", "--label"}} }

// otherFlags are the flags that other tools call by other words.
var otherFlags = map[string][]otherFlag{
	"l": onServers(), "selector": onServers(), "host": onServers(), "hosts": onServers(), "server": onServers(),
	"servers": onServers(), "node": onServers(), "target": onServers(), "limit": onServers(), "where": onServers(),
	"filter": onServers(), "field-selector": onServers(),
	"approval": {{"approve", "--approve=other"}}, "expires": {{"valid", "--valid"}},
	"for": {{"valid", "--valid"}, {"until", "--until"}},
	"to":  {{"channel", "--channel"}}, "metadata": {{"set", "--set"}}, "save": {{"out", "--out"}},
	"image-key": {{"key", "--key"}}, "ttl": {{"valid", "--valid"}}, "canary": {{"canaries", "--canaries"}},
	"namespace": {{"env", "--env"}, {"on", "--on env=NAME"}},
	"n":         {{"lines", "--lines"}, {"env", "--env"}, {"limit", "--limit"}, {"on", "--on env=NAME"}},
	"tail":      {{"lines", "--lines"}, {"limit", "--limit"}}, "lines": {{"limit", "--limit"}},
	"A": {{"limit", "--limit all"}, {"on", "--on all"}}, "all": {{"limit", "--limit all"}, {"on", "--on all"}},
	"state": {{"presence", "--presence"}}, "status": {{"state", "--state"}, {"presence", "--presence"}},
	"json": {{"output", "-o json"}}, "yaml": {{"output", "-o yaml"}}, "wide": {{"output", "-o wide"}},
	"format": {{"output", "-o FORMAT"}}, "template": {{"jq", "--jq EXPR"}},
	"q": {{"output", "-o name"}}, "quiet": {{"output", "-o name"}},
	"sort-by": {{"sort", "--sort"}}, "no-color": {{"color", "--color never"}}, "colour": {{"color", "--color"}},
	"check": {{"dry-run", "--dry-run"}}, "diff": {{"dry-run", "--dry-run"}}, "noop": {{"dry-run", "--dry-run"}},
	"plan": {{"dry-run", "--dry-run"}}, "what-if": {{"dry-run", "--dry-run"}}, "simulate": {{"dry-run", "--dry-run"}},
	"no-wait": {{"detach", "--detach"}}, "async": {{"detach", "--detach"}}, "d": {{"detach", "--detach"}},
	"wait":  {{"detach", "nothing; the command waits, unless --detach is set"}},
	"force": {{"yes", "--yes"}}, "assume-yes": {{"yes", "--yes"}}, "auto-approve": {{"yes", "--yes"}},
	"comment": {{"message", "--message"}}, "reason": {{"message", "--message"}}, "note": {{"message", "--message"}},
	"follow": {{"watch", "--watch"}}, "f": {{"watch", "--watch"}}, "w": {{"follow", "--follow"}},
	"V": {{"version", "--version"}}, "kubeconfig": {{"context", "--context"}}, "profile": {{"context", "--context"}},
}
