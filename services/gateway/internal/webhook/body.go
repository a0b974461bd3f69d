package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/version"
)

const (
	// mostBody bounds what a template writes, and each text that it makes.
	mostBody = 64 << 10
	// mostValue bounds a header: a target refuses a request with large ones.
	mostValue = 1 << 10
)

// functions are what a body can call beside those of the language.
var functions = template.FuncMap{
	"json": func(v any) (string, error) {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(v)
		return bound(strings.TrimSpace(b.String()), err)
	},
	"short": short,
	"slack": func(text string) (string, error) { return bound(forSlack.Replace(text), nil) },

	// Those of the language make texts without a bound.
	"html": unbounded, "js": unbounded, "print": unbounded, "printf": unbounded, "println": unbounded,
	"urlquery": unbounded,
}

var forSlack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func bound(text string, err error) (string, error) {
	if len(text) > mostBody {
		return "", fmt.Errorf("a text of the body has more than %d bytes", mostBody)
	}
	return text, err
}

func unbounded(...any) (string, error) {
	return "", errors.New("a body writes texts with json alone, as {{json .Sentence}}")
}

// loops reports whether a part of a template may run more than once.
func loops(n parse.Node) bool {
	branch := func(b parse.BranchNode) bool { return loops(b.List) || b.ElseList != nil && loops(b.ElseList) }
	switch n := n.(type) {
	case *parse.ListNode:
		return slices.ContainsFunc(n.Nodes, loops)
	case *parse.IfNode:
		return branch(n.BranchNode)
	case *parse.WithNode:
		return branch(n.BranchNode)
	case *parse.RangeNode, *parse.TemplateNode:
		return true
	}
	return false
}

// parseBody parses the template of a body, which must make JSON of any message.
func parseBody(text string) (*template.Template, error) {
	t, err := template.New("body").Funcs(functions).Parse(text)
	if err != nil {
		return nil, err
	}
	if t.Tree == nil || loops(t.Root) {
		return nil, errors.New("a body has neither range nor template: it makes one text of one fact")
	}
	for _, resolved := range []bool{false, true} {
		m := sample
		m.Resolved = resolved
		if _, err := render(t, m); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// render returns the body of a message.
func render(t *template.Template, m message) ([]byte, error) {
	var b bounded
	if err := t.Execute(&b, m); err != nil {
		return nil, err
	}
	if !json.Valid(b.Bytes()) {
		return nil, errors.New("the body is not JSON; write each text with json, as {{json .Sentence}}")
	}
	return b.Bytes(), nil
}

// bounded is a buffer with a bound.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > mostBody {
		return 0, fmt.Errorf("the body has more than %d bytes", mostBody)
	}
	return b.Buffer.Write(p)
}

// attributes returns the attributes of a fact as a CloudEvent, without specversion, and those of Garrison.
func attributes(e client.Event, m message) map[string]string {
	all := map[string]string{
		"id": m.ID, "source": "garrison/" + sourceOf(e), "type": m.Type, "subject": m.Noun + "/" + m.Key,
		"time": m.Time, "datacontenttype": "application/json",
		"garrisonsequence": strconv.FormatUint(m.Sequence, 10), "garrisonactor": m.Actor, "garrisonnote": m.Note,
		"garrisonserver": m.Server, "garrisonserverid": m.ServerID, "garrisonenv": m.Environment,
		"garrisonagent": m.Agent, "garrisonsentence": m.Sentence, "garrisonseverity": m.Severity,
		"garrisonrequest": e.Request, "traceparent": e.Trace,
	}
	for name, value := range all {
		if value == "" {
			delete(all, name) // an attribute must not be empty
		}
	}
	return all
}

func sourceOf(e client.Event) string {
	if s := strings.TrimPrefix(e.Source, "garrison/"); s != "" {
		return s
	}
	return e.Noun.Writer()
}

// typeOf returns the type of a fact: the name of its message, or what the header of an unknown one says.
func typeOf(e client.Event) string {
	if e.Body != nil {
		return string(e.Body.ProtoReflect().Descriptor().FullName())
	}
	if t := e.Stored.GetHeaders()["ce-type"]; t != "" {
		return clean(t)
	}
	return "garrison.unknown"
}

// request returns the request that delivers a fact, unsigned, and its body.
func (r *route) request(e client.Event, m message) (q *http.Request, body []byte, err error) {
	data := []byte("null")
	if e.Body != nil && r.body == nil {
		if data, err = protojson.Marshal(e.Body); err != nil {
			return nil, nil, err
		}
	}
	h := http.Header{"User-Agent": {"garrison/" + version.Version}, "Content-Type": {"application/json"}}
	switch {
	case r.body != nil:
		body, err = render(r.body, m)
	case r.format == binary:
		body = data
		h.Set("ce-specversion", "1.0")
		for name, value := range attributes(e, m) {
			if text := encodeHeader(value); name != "datacontenttype" && len(text) <= mostValue {
				h.Set("ce-"+name, text)
			}
		}
	default:
		h.Set("Content-Type", "application/cloudevents+json")
		event := map[string]any{"specversion": "1.0", "data": json.RawMessage(data)}
		for name, value := range attributes(e, m) {
			event[name] = value
		}
		body, err = json.Marshal(event)
	}
	if err != nil {
		return nil, nil, err
	}
	q, err = http.NewRequestWithContext(context.Background(), http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, errors.New("the url of the route cannot be used")
	}
	q.Header = h
	return q, body, nil
}

// encodeHeader encodes an attribute as the HTTP binding of CloudEvents says: what is not visible ASCII, a quote and a
// percent sign are percent-encoded.
func encodeHeader(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == '"' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// hostOf returns the host of a route, which is no secret.
func hostOf(r *route) string {
	u, err := url.Parse(r.url)
	if err != nil {
		return ""
	}
	return u.Host
}

// testEvent returns a fact that no ledger holds, for a test of a route.
func testEvent(at time.Time, id string) (client.Event, message) {
	e := client.Event{Subject: "webhook.test"}
	e.ID, e.At, e.Source, e.Actor, e.Noun, e.Key = id, at, "gateway", "gateway", "webhook", "test"
	m := messageOf(e, about{}, "")
	m.Type, m.Sentence = "garrison.webhook.test", "a test of this webhook; nothing happened"
	return e, m
}
