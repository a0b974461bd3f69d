package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// listed are the pages of lists, by the CLI's noun, with the flags that are parameters of the page.
var listed = map[string]struct {
	path  string
	flags []string
}{
	"server": {"/console/servers", []string{
		"on", "presence", "life", "standing", "condition", "trouble", "unconfirmed", "leaked",
		"found",
	}},
	"instance": {"/console/instances", []string{"on", "agent", "version", "state", "health", "stale"}},
	"rollout":  {"/console/rollouts", []string{"agent", "state"}},
	"intent":   {"/console/intents", []string{"actor", "verb", "state"}},
	"task":     {"/console/tasks", []string{"agent", "server", "intent", "state", "slow"}},
	"image":    {"/console/images", []string{"agent", "channel", "state", "untrusted"}},
	"env":      {"/console/environments", nil},
	"user":     {"/console/people", nil},
}

// shown are the pages of one thing, by the CLI's noun.
var shown = map[string]string{
	"server": "/console/servers/", "rollout": "/console/rollouts/", "intent": "/console/intents/",
	"task": "/console/tasks/", "image": "/console/images/",
}

// onRollout are the verbs whose forms are on the page of a rollout.
var onRollout = []string{"approve", "resume", "pause", "abort"}

// pageOf returns the page that shows what a command of the CLI shows; "" without one, and when the page would show
// something else than every word of the command says.
func pageOf(command string) string {
	words := strings.Fields(command)
	if len(words) < 2 || words[0] != "garrison" || strings.ContainsAny(command, `'";,`) {
		return ""
	}
	switch rest := words[2:]; words[1] {
	case "status":
		return withFlags("/console/", nil, rest)
	case "check":
		return withFlags("/console/check", []string{"on"}, rest)
	case "events":
		return withFlags("/console/events", []string{"noun", "key", "actor"}, rest)
	case "explain":
		return explained(rest)
	default:
		return ofNoun(words[1], rest)
	}
}

// ofNoun returns the page for a verb of a noun and what follows.
func ofNoun(noun string, words []string) string {
	switch list := listed[noun]; {
	case noun == "server" && slices.Equal(words, []string{"list", "--lobby"}):
		return "/console/lobby"
	case len(words) > 0 && words[0] == "list" && list.path != "":
		return withFlags(list.path, list.flags, words[1:])
	case len(words) != 2 || !named(words[1]) || shown[noun] == "":
		return ""
	case words[0] == "show", noun == "rollout" && slices.Contains(onRollout, words[0]):
		return shown[noun] + url.PathEscape(words[1])
	}
	return ""
}

// explained returns the page for the words behind explain, where that is a code.
func explained(words []string) string {
	if len(words) != 1 {
		return ""
	}
	if _, known := code.Lookup(words[0]); known {
		return "/console/codes/" + url.PathEscape(words[0])
	}
	return ""
}

// named reports whether a word names something, and is no placeholder and no flag.
func named(word string) bool { return word == strings.ToLower(word) && !strings.HasPrefix(word, "-") }

// switches are the flags without a value.
var switches = []string{"leaked", "found", "stale", "slow", "untrusted"}

// withFlags returns a page with flags as its parameters; "" when a word is another one.
func withFlags(page string, flags, words []string) string {
	q := url.Values{}
	for len(words) > 0 {
		name, value, has := strings.Cut(strings.TrimPrefix(words[0], "--"), "=")
		if !strings.HasPrefix(words[0], "--") || !slices.Contains(flags, name) {
			return ""
		}
		words = words[1:]
		switch {
		case slices.Contains(switches, name):
			value = "1"
		case !has && len(words) > 0 && !strings.HasPrefix(words[0], "-"):
			value, words = words[0], words[1:]
		case !has:
			return ""
		}
		q.Set(name, value)
	}
	if len(q) == 0 {
		return page
	}
	return page + "?" + q.Encode()
}
