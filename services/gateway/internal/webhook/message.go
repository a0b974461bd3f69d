package webhook

import (
	"net/url"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// mostText bounds each text of a message, in characters.
const mostText = 1000

// The severities, in the words of PagerDuty.
const (
	critical = "critical"
	failing  = "error"
	warning  = "warning"
	info     = "info"
)

// trouble says which facts begin a trouble and how severe it is, by noun and name.
var trouble = map[string]string{
	"rollout halted": critical, "environment drift-braked": critical,
	"task failed": failing, "task undone": failing, "task expired": failing, "server quarantined": failing,
	"server ahead": failing, "server duplicated": failing, "server clean-up-failed": failing, "block set": failing,
	"server offline": warning, "server revoked": warning, "intent refused": warning, "rollout rejected": warning,
	"rollout aborted": warning, "user revoked": warning,
}

// ends says which trouble about the same noun and key a fact ends.
var ends = map[string]string{
	"rollout resumed": "halted", "rollout succeeded": "halted", "rollout aborted": "halted", "rollout undone": "halted",
	"environment drift-released": "drift-braked", "server online": "offline", "server released": "quarantined",
	"server place-confirmed": "ahead", "server epoch-raised": "ahead", "server duplicate-ended": "duplicated",
	"server uninstalled": "clean-up-failed", "block lifted": "set",
}

// message is a fact for people, as the body of a route sees it. Its texts have one line, no characters that change the
// direction of text or steer a terminal, and at most mostText characters.
type message struct {
	ID, Time, Type   string
	Sequence         uint64
	Noun, Fact, Key  string
	Actor, Note      string
	Server, ServerID string // empty where the fact is not about a server
	Environment      string
	Agent            string
	Sentence, Detail string
	Severity         string // critical, error, warning or info
	Resolved         bool   // the fact ends the trouble of Trouble
	Trouble          string // the same for the fact that begins a trouble and the one that ends it
	Link             string // to the console; empty without its address
}

// messageOf returns a fact for people.
func messageOf(e client.Event, a about, console string) message {
	kind := string(e.Noun) + " " + e.Name()
	m := message{
		ID: idOf(e), Type: typeOf(e), Time: e.At.UTC().Format(time.RFC3339Nano), Sequence: e.Sequence,
		Noun: string(e.Noun), Fact: e.Name(), Key: clean(e.Key), Actor: clean(e.Actor), Note: clean(e.Note),
		Server: clean(a.server.GetName()), ServerID: clean(a.serverID), Environment: clean(a.server.GetEnvironment()),
		Agent: clean(a.agent), Severity: info,
	}
	if e.Body != nil {
		m.Detail = clean(display.FactText(e.Fact))
	}
	begins := m.Fact
	if s := trouble[kind]; s != "" {
		m.Severity = s
	}
	if begun := ends[kind]; begun != "" {
		m.Resolved, begins = true, begun
	}
	m.Trouble = clean(m.Noun + "/" + m.Key + "/" + begins)
	m.Sentence = m.sentence()
	if console != "" {
		m.Link = console + m.page()
	}
	return m
}

// idOf returns what identifies a delivery: the id of the fact, which has no dot.
func idOf(e client.Event) string {
	if ident.IsUUID(e.ID) {
		return e.ID
	}
	return ident.From("webhook", e.ID, e.Subject)
}

// clean returns a text on one line, bounded.
func clean(text string) string { return short(mostText, visible.Line(text)) }

// short returns at most n characters of a text.
func short(n int, text string) string {
	if r := []rune(text); len(r) > n {
		return string(r[:max(0, n-1)]) + "…"
	}
	return text
}

// sentence says what happened, to what, and why.
func (m *message) sentence() string {
	server := m.Server
	if server == "" && m.ServerID != "" {
		server = ident.Handle(m.ServerID)
	}
	var what string
	switch ledger.Noun(m.Noun) {
	case ledger.Server:
		what = "server " + server
	case ledger.Task, ledger.Instance:
		what = strings.TrimSpace(m.Noun + " of " + m.Agent)
		if server != "" {
			what += " on " + server
		}
	default:
		key := m.Key
		if ident.IsUUID(key) {
			key = ident.Handle(key)
		}
		what = m.Noun + " " + key
	}
	what += ": " + strings.ReplaceAll(m.Fact, "-", " ")
	if m.Detail != "" {
		what += ", " + m.Detail
	}
	if m.Note != "" && m.Note != m.Detail {
		what += " (" + m.Note + ")"
	}
	return clean(what)
}

// page returns the page of the console about the fact.
func (m *message) page() string {
	switch noun := ledger.Noun(m.Noun); {
	case noun == ledger.Task, noun == ledger.Rollout:
		return "/console/" + m.Noun + "s/" + url.PathEscape(m.Key)
	case ident.IsUUID(m.ServerID):
		return "/console/servers/" + m.ServerID
	}
	return "/console/events"
}

// sample is a message that a body must be able to show, with what people and servers can put into texts.
var sample = func() message {
	const hostile = "\"quoted\" \\ {{.}} <!channel> & </script> ' \u00e9"
	return message{
		ID: ident.From("webhook", "sample"), Time: "2026-01-31T12:00:00Z", Sequence: 1, Noun: "task", Fact: "failed",
		Key: hostile, Actor: hostile, Note: hostile, Server: hostile, ServerID: hostile, Environment: hostile,
		Agent: hostile, Sentence: hostile, Detail: hostile, Severity: failing, Trouble: hostile,
		Link: "https://garrison.example.com/console/events",
	}
}()
