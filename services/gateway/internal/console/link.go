package console

import (
	"net/url"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// nouns are the pages of the CLI's nouns: a list, and one thing where things have pages.
var nouns = map[string]struct{ list, one string }{
	"server":   {"/console/servers", "/console/servers/"},
	"instance": {"/console/instances", ""},
	"rollout":  {"/console/rollouts", "/console/rollouts/"},
	"intent":   {"/console/intents", "/console/intents/"},
	"task":     {"/console/tasks", "/console/tasks/"},
	"image":    {"/console/images", ""},
	"env":      {"/console/environments", ""},
	"user":     {"/console/people", ""},
}

// pageOf returns the page that shows what a command of the CLI shows, or on which its change is made; "" for none.
func pageOf(command string) string {
	words := strings.Fields(command)
	if len(words) < 2 || words[0] != "garrison" {
		return ""
	}
	rest := words[2:]
	switch words[1] {
	case "status":
		return "/console/"
	case "check":
		return "/console/check"
	case "events":
		return withFlags("/console/events", rest)
	case "explain":
		return explained(rest)
	}
	n, ok := nouns[words[1]]
	switch {
	case !ok || len(rest) == 0:
		return ""
	case rest[0] == "list":
		return withFlags(n.list, rest[1:])
	case n.one != "" && len(rest) > 1 && !strings.HasPrefix(rest[1], "-") && rest[1] == strings.ToLower(rest[1]):
		return n.one + url.PathEscape(strings.TrimSuffix(rest[1], ";"))
	}
	return ""
}

// explained returns the page for the words behind explain.
func explained(words []string) string {
	if len(words) == 0 {
		return ""
	}
	if _, known := code.Lookup(words[0]); known {
		return "/console/codes/" + url.PathEscape(words[0])
	}
	if words[0] != strings.ToLower(words[0]) {
		return "" // a placeholder such as SERVER
	}
	return "/console/servers/" + url.PathEscape(words[0])
}

// withFlags returns a page with flags as parameters: a list has them by the same names.
func withFlags(page string, words []string) string {
	q := url.Values{}
	for n := 0; n < len(words); n++ {
		name, value, has := strings.Cut(strings.TrimPrefix(words[n], "--"), "=")
		if !strings.HasPrefix(words[n], "--") {
			continue
		}
		if !has && n+1 < len(words) && !strings.HasPrefix(words[n+1], "-") {
			n++
			value = words[n]
		} else if !has {
			value = "1"
		}
		q.Set(name, strings.Trim(value, "'"))
	}
	if len(q) == 0 {
		return page
	}
	return page + "?" + q.Encode()
}
