package webhook

import (
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const page = "../../../../deploy/docs/webhooks.md"

// recipes returns the routes that the page shows.
func recipes(t *testing.T) *settings {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, file: t.TempDir() + "/webhooks.yaml"}
	var lines strings.Builder
	_, rest, _ := strings.Cut(string(text), "\n## Recipes\n")
	for line := range strings.Lines(rest) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			lines.WriteString("  " + code)
		}
	}
	w.routes(lines.String())
	s, err := readFile(w.file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// object is a JSON object whose every member a test must read.
type object struct {
	*testing.T
	what string
	m    map[string]any
}

// text removes a text from the object, and checks how long it is.
func (o object) text(name string, most int) string {
	o.Helper()
	s, ok := o.m[name].(string)
	if !ok || s == "" || utf8.RuneCountInString(s) > most {
		o.Errorf("%s.%s is %.100v, want a text of 1 to %d characters", o.what, name, o.m[name], most)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) || r == '\n' }) {
		o.Errorf("%s.%s has characters that steer: %.100q", o.what, name, s)
	}
	delete(o.m, name)
	return s
}

// rest fails when something is left that the format does not have.
func (o object) rest(known ...string) {
	o.Helper()
	for name := range o.m {
		if !slices.Contains(known, name) {
			o.Errorf("%s has a member %q", o.what, name)
		}
	}
}

func (o object) oneOf(name string, words ...string) {
	o.Helper()
	if s := o.text(name, 100); !slices.Contains(words, s) {
		o.Errorf("%s.%s is %q, want one of %q", o.what, name, s, words)
	}
}

// asSlack checks what https://docs.slack.dev says of incoming webhooks and blocks.
func asSlack(t *testing.T, body []byte) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	o := object{t, "message", m}
	text := o.text("text", 40_000)
	if regexp.MustCompile(`[<>]|&(?:[^agl]|$)`).MatchString(text) {
		t.Errorf("the text has markup: %s", text)
	}
	blocks, _ := m["blocks"].([]any)
	if len(blocks) == 0 || len(blocks) > 50 {
		t.Errorf("%d blocks", len(blocks))
	}
	for _, b := range blocks {
		m, _ := b.(map[string]any)
		block := object{t, "block", m}
		switch block.text("type", 20) {
		case "section":
			m, _ := m["text"].(map[string]any)
			section := object{t, "text", m}
			section.oneOf("type", "plain_text")
			section.text("text", 3000)
			section.rest()
			block.rest("text")
		case "context":
			elements, _ := m["elements"].([]any)
			if len(elements) == 0 || len(elements) > 10 {
				t.Errorf("%d elements", len(elements))
			}
			block.rest("elements")
		default:
			t.Error("a block of another type")
		}
	}
	o.rest("blocks")
}

// asPagerDuty checks what the reference of the Events API v2 says.
func asPagerDuty(t *testing.T, body []byte) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	o := object{t, "event", m}
	if key := o.text("routing_key", 32); len(key) != 32 {
		t.Errorf("a routing key of %d characters", len(key))
	}
	o.text("dedup_key", 255)
	o.oneOf("event_action", "trigger", "acknowledge", "resolve")
	in, _ := m["payload"].(map[string]any)
	payload := object{t, "payload", in}
	payload.text("summary", 1024)
	payload.text("source", 1024)
	payload.oneOf("severity", "critical", "error", "warning", "info")
	if _, err := time.Parse(time.RFC3339, payload.text("timestamp", 40)); err != nil {
		t.Error(err)
	}
	payload.rest("component", "group", "class", "custom_details")
	o.rest("payload", "client", "client_url", "links", "images")
}

// asAlertmanager checks what api/v2/openapi.yaml says of postableAlerts, and what its server refuses.
func asAlertmanager(t *testing.T, body []byte) {
	t.Helper()
	var alerts []struct {
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
		GeneratorURL        string
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&alerts); err != nil || len(alerts) != 1 {
		t.Fatalf("%v: %s", err, body)
	}
	a := alerts[0]
	for name, value := range a.Labels {
		if !regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`).MatchString(name) || value == "" {
			t.Errorf("the label %q with %q", name, value)
		}
	}
	u, err := url.Parse(a.GeneratorURL)
	if a.Labels["alertname"] == "" || a.Annotations["summary"] == "" || err != nil || !u.IsAbs() ||
		a.StartsAt.IsZero() == a.EndsAt.IsZero() || !a.EndsAt.IsZero() && a.EndsAt.Before(a.StartsAt) {
		t.Errorf("the alert %s", body)
	}
}

// hostile are texts that servers and people can choose.
var hostile = []string{
	`"quoted" \ {{.}} </script> <!channel> & &lt;`, "two\nlines\tand a tab", "\u202eevil\u2066\u200f",
	"\x1b[31mred\x07", strings.Repeat("é", 4096), "bad \xff bytes",
	"'; DROP TABLE alerts; --",
}

func TestEachRecipeOfThePageSpeaksTheFormatOfItsTarget(t *testing.T) {
	s := recipes(t)
	formats := map[string]func(*testing.T, []byte){
		"slack": asSlack, "pagerduty": asPagerDuty, "alertmanager": asAlertmanager,
	}
	if len(s.routes) != len(formats) {
		t.Fatalf("the page has %d recipes, want %d", len(s.routes), len(formats))
	}
	for _, text := range hostile {
		for _, f := range []ledger.Fact{
			{Noun: ledger.Agent, Key: text, Actor: text, Note: text, Body: &agentv1.Created{
				Agent: &agentv1.Agent{Description: text},
			}},
			{Noun: ledger.Server, Key: sample.ID, Body: &serverv1.Quarantined{Reason: text}},
			{Noun: ledger.Server, Key: sample.ID, Body: &serverv1.Online{BootId: text}},
			{Noun: ledger.Rollout, Key: text, Body: &rolloutv1.Resumed{}, Note: text},
		} {
			a := about{agent: text, server: &serverv1.Server{Name: text, Environment: text}}
			f.At = time.Now()
			m := messageOf(client.Event{Fact: f, Subject: "x"}, a, "https://garrison.example.com")
			for i := range s.routes {
				_, body, err := s.routes[i].request(client.Event{Fact: f}, m)
				if err != nil {
					t.Fatalf("%s: %v", s.routes[i].name, err)
				}
				formats[s.routes[i].name](t, body)
			}
		}
	}
}

func TestAnEventThatEndsATroubleHasTheKeyOfTheOneThatBeganIt(t *testing.T) {
	for kind, begun := range ends {
		noun, _, _ := strings.Cut(kind, " ")
		if trouble[noun+" "+begun] == "" {
			t.Errorf("%s ends %s, which is no trouble", kind, begun)
		}
		for _, k := range []string{kind, noun + " " + begun} {
			if !slices.ContainsFunc(ledger.Kinds, func(l ledger.Kind) bool { return nounOf(l)+" "+nameOf(l) == k }) {
				t.Errorf("there is no fact %s", k)
			}
		}
	}
	for kind := range trouble {
		if !slices.ContainsFunc(ledger.Kinds, func(l ledger.Kind) bool { return nounOf(l)+" "+nameOf(l) == kind }) {
			t.Errorf("there is no fact %s", kind)
		}
	}
	server := ledger.Fact{Noun: ledger.Server, Key: "s", Body: &serverv1.Offline{}}
	gone := messageOf(client.Event{Fact: server}, about{}, "")
	server.Body = &serverv1.Online{}
	back := messageOf(client.Event{Fact: server}, about{}, "")
	if gone.Trouble != back.Trouble || gone.Resolved || !back.Resolved || gone.Severity != warning {
		t.Errorf("%+v and %+v", gone, back)
	}
}

// Both forms are checked as CloudEvents 1.0 and its HTTP binding say.
func TestAFactIsACloudEventInBothForms(t *testing.T) {
	for _, text := range hostile {
		e := client.Event{Fact: ledger.Fact{
			Noun: ledger.Agent, Key: "a", Actor: text, Note: text, ID: sample.ID, At: time.Now(), Source: "registry",
			Body: &agentv1.Created{Agent: &agentv1.Agent{Name: "a", Description: strings.ToValidUTF8(text, "?")}},
		}}
		m := messageOf(e, about{agent: "a"}, "")
		one := route{url: "https://example.com", format: structured}
		q, body, err := one.request(e, m)
		var event map[string]any
		if err != nil || json.Unmarshal(body, &event) != nil ||
			q.Header.Get("Content-Type") != "application/cloudevents+json" {
			t.Fatalf("structured: %v, %s", err, body)
		}
		one.format = binary
		q, body, err = one.request(e, m)
		if err != nil || !json.Valid(body) || q.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("binary: %v, %s", err, body)
		}
		for name, value := range event {
			if name == "data" || name == "datacontenttype" {
				continue
			}
			if text, _ := value.(string); len(encodeHeader(text)) > mostValue { // a target would refuse the request
				if q.Header.Get("ce-"+name) != "" {
					t.Errorf("the header of %s has %d bytes", name, len(q.Header.Get("ce-"+name)))
				}
				continue
			}
			decoded, err := url.PathUnescape(q.Header.Get("ce-" + name))
			if err != nil || decoded != value || !regexp.MustCompile(`^[a-z0-9]{1,20}$`).MatchString(name) {
				t.Errorf("%s is %q as a header and %q in the body, %v", name, decoded, value, err)
			}
		}
		for name, values := range q.Header {
			if strings.ContainsFunc(strings.Join(values, ""), func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("the header %s has %q", name, values)
			}
		}
		want := map[string]string{
			"specversion": "1.0", "id": sample.ID, "type": "garrison.agent.v1.Created",
			"source": "garrison/registry", "subject": "agent/a",
		}
		for name, value := range want {
			if event[name] != value {
				t.Errorf("%s is %v, want %s", name, event[name], value)
			}
		}
	}
}
