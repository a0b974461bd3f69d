package cli

import (
	"maps"

	"github.com/spf13/cobra"
)

// verbWords are other words for verbs of nouns, by verb. They are named as the nearest command, and never run.
var verbWords = map[string][]string{
	"list":     {"get", "all", "get-contexts", "members", "history"},
	"show":     {"get", "describe", "inspect", "info", "status", "view", "current", "current-context", "cat", "logs"},
	"create":   {"new", "add", "make"},
	"delete":   {"rm", "remove", "destroy", "del"},
	"update":   {"edit", "set", "patch", "change"},
	"wait":     {"watch"},
	"cancel":   {"stop", "kill", "delete", "abort"},
	"use":      {"use-context", "set-context", "select", "switch"},
	"import":   {"push", "upload", "load"},
	"export":   {"pull", "download", "save"},
	"build":    {"pack", "package"},
	"activate": {"enable"},
	"label":    {"tag", "annotate", "edit", "update", "set"},

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

// otherWords are the commands that users of kubectl, nomad, helm, systemctl, ansible and gh mean by other words.
var otherWords = map[string]string{
	"get": "instance list", "describe": "explain", "ps": "instance list", "pods": "instance list", "show": "explain",
	"nodes": "server list", "node": "server", "hosts": "server list", "host": "server", "machines": "server list",
	"rm": "remove", "delete": "remove", "uninstall": "remove", "deploy": "install", "run": "install", "add": "install",
	"log": "events", "history": "events", "audit": "events", "top": "status", "monitor": "events", "journalctl": "logs",
	"rollback": "undo", "revert": "undo", "pin": "hold", "unpin": "unhold", "drain": "server quarantine",
	"cordon": "server quarantine", "uncordon": "server release", "label": "server label", "login": "context add",
	"config": "context", "config-view": "context list", "plan": "up --dry-run", "jobs": "task list", "job": "task",
	"ls": "server list", "restart": "explain", "stop": "remove", "servers": "server list", "agents": "agent list",
	"images": "image list", "rollouts": "rollout list", "tasks": "task list", "instances": "instance list",
	"namespaces": "env list", "namespace": "env", "environments": "env list", "apps": "app list", "set": "configure",
	"edit": "configure", "list": "server list", "ping": "server list", "inventory": "server list",
	"facts": "server show", "members": "server list", "taint": "server quarantine", "logout": "context rm",
	"cluster-info": "bus status", "ui": "status", "web": "status", "dashboard": "status", "start": "install",
	"enable": "install", "scale": "install", "disable": "hold", "mask": "hold", "unmask": "unhold",
	"is-active": "instance list", "is-enabled": "instance list", "list-units": "instance list", "cat": "agent show",
	"daemon-reload": "configure", "reload": "configure", "search": "image list", "repo": "image",
	"pull": "image export", "push": "image import", "package": "image build", "pack": "image build",
	"values": "agent show", "template": "agent show", "test": "check", "lint": "check", "verify": "check",
	"playbook": "apply", "doc": "man", "kill": "task cancel", "cancel": "intent cancel", "alloc": "instance",
	"deployment": "rollout", "eval": "task",

	"auth login": "context add", "auth logout": "context rm", "auth status": "whoami", "auth whoami": "whoami",
	"server upgrade": "up", "server up": "up", "server install": "install", "server check": "check",
	"agent install": "install", "agent upgrade": "up", "agent remove": "remove", "agent uninstall": "remove",
	"agent logs": "logs", "image install": "install", "instance logs": "logs", "rollout status": "rollout show",
	"instance delete": "remove", "instance remove": "remove", "channel show": "channel list",
	"channel add": "image promote", "image add": "image import", "image publish": "image activate",
	"rollout restart": "configure",
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
	"namespace": {{"env", "--env"}, {"on", "--on env=NAME"}},
	"n":         {{"lines", "--lines"}, {"env", "--env"}, {"limit", "--limit"}, {"on", "--on env=NAME"}},
	"tail":      {{"lines", "--lines"}, {"limit", "--limit"}}, "lines": {{"limit", "--limit"}},
	"A": {{"limit", "--limit all"}, {"on", "--on all"}}, "all": {{"limit", "--limit all"}, {"on", "--on all"}},
	"state": {{"presence", "--presence"}}, "status": {{"state", "--state"}, {"presence", "--presence"}},
	"json": {{"output", "-o json"}}, "yaml": {{"output", "-o yaml"}}, "wide": {{"output", "-o wide"}},
	"format": {{"output", "-o FORMAT"}}, "template": {{"output", "-o template=TEXT"}},
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
