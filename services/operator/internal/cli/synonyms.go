package cli

import "github.com/spf13/cobra"

// verbWords are other words for verbs of nouns, by verb. They are named as the nearest command, and never run.
var verbWords = map[string][]string{
	"list":   {"get", "all"},
	"show":   {"get", "describe", "inspect", "info", "status", "view"},
	"create": {"new", "add", "make"},
	"delete": {"rm", "remove", "destroy", "del"},
	"update": {"edit", "set", "patch", "change"},
	"wait":   {"watch"},
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

// rootWords are the commands that users of kubectl, nomad and gh mean by other words.
var rootWords = map[string]string{
	"get": "instance list", "describe": "explain", "ps": "instance list", "pods": "instance list",
	"nodes": "server list", "node": "server", "hosts": "server list", "host": "server", "machines": "server list",
	"rm": "remove", "delete": "remove", "uninstall": "remove", "deploy": "install", "run": "install", "add": "install",
	"logs": "task show", "log": "events", "history": "events", "audit": "events", "top": "status",
	"rollback": "undo", "revert": "undo", "pin": "hold", "unpin": "unhold", "drain": "server quarantine",
	"cordon": "server quarantine", "uncordon": "server release", "label": "server label", "login": "context add",
	"config": "context", "config-view": "context list", "plan": "up --dry-run", "jobs": "task list", "job": "task",
	"namespaces": "env list", "namespace": "env", "environments": "env list", "apps": "app list", "set": "configure",
}
