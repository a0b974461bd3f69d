package events

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// eventOf returns a fact as it is printed. A fact that this binary cannot decode keeps its sequence, time, noun and
// subject; of one that it knows in part, the rest is named.
func eventOf(f client.Event) event {
	e := event{
		Sequence: f.Sequence, ID: f.ID, Time: f.At.UTC().Format(time.RFC3339Nano),
		Noun: string(f.Noun), Key: f.Key, Fact: f.Name(), Source: f.Source, Actor: f.Actor,
		Request: f.Request, Cause: f.Cause, Trace: f.Trace, Body: json.RawMessage("null"),
	}
	if f.Unread != nil {
		e.Unknown = f.Unread.Error()
	}
	if f.Body == nil {
		e.Key, e.Fact, e.detail = f.Subject, "?", e.Unknown
		return e
	}
	e.detail, e.Note = display.FactText(f.Fact), f.Note
	if f.Note != "" {
		e.detail = strings.TrimSpace(e.detail + " -m " + listing.Quote(f.Note))
	}
	if e.Unknown != "" {
		e.detail += " (not all of it is known here: " + e.Unknown + ")"
	}
	if body, err := output.Encode(f.Body); err == nil {
		e.Body = body
	}
	return e
}

// event is a fact with its envelope, in the form that JSON prints.
type event struct {
	Sequence uint64          `json:"sequence"`
	ID       string          `json:"id"`
	Time     string          `json:"time"`
	Noun     string          `json:"noun"`
	Key      string          `json:"key"`
	Fact     string          `json:"fact"`
	Source   string          `json:"source"`
	Actor    string          `json:"actor"`
	Request  string          `json:"request,omitempty"`
	Cause    string          `json:"cause,omitempty"`
	Trace    string          `json:"traceparent,omitempty"`
	Note     string          `json:"note,omitempty"`
	Body     json.RawMessage `json:"body"`
	Unknown  string          `json:"unknown,omitempty"` // what of the fact this binary does not know
	detail   string
}

type eventList struct {
	Events []event `json:"events"`
}

var table = listing.Listing[event]{
	Name: func(e event) string { return strconv.FormatUint(e.Sequence, 10) },
	Columns: []listing.Column[event]{
		{Title: "SEQ", Number: true, Min: 6, Value: func(_ listing.View, e event) string {
			return strconv.FormatUint(e.Sequence, 10)
		}},
		{Title: "TIME", Min: 20, Value: func(v listing.View, e event) string {
			return e.shortTime(v)
		}, Key: func(e event) string { return e.Time }},
		{Title: "ACTOR", Min: 15, Value: func(_ listing.View, e event) string { return e.Actor }},
		{Title: "NOUN", Min: 11, Value: func(_ listing.View, e event) string { return e.Noun }},
		{Title: "KEY", Min: 17, Value: func(v listing.View, e event) string { return shortKey(v, e.Key) }},
		{Title: "FACT", Min: 12, Value: func(_ listing.View, e event) string { return e.Fact }},
		listing.Col("DETAIL", func(e event) string { return e.detail }),
		listing.Wide("REQUEST", func(e event) string { return e.Request }),
		listing.Wide("CAUSE", func(e event) string { return e.Cause }),
		listing.Wide("SOURCE", func(e event) string { return e.Source }),
		listing.Wide("ID", func(e event) string { return e.ID }),
	},
}

// least and roomy bound the width of terminals on which facts have short times and no number.
const (
	least = 80
	roomy = 110
)

// narrow returns the listing for a narrow terminal. The number of a fact is left out, which -o name prints, and its
// noun is before its name.
func narrow() listing.Listing[event] {
	l := listing.Listing[event]{Name: table.Name}
	for _, c := range table.Columns {
		switch c.Title {
		case "SEQ", "NOUN":
			continue
		case "FACT":
			c.Min, c.Value = 0, func(_ listing.View, e event) string { return e.Noun + " " + e.Fact }
		case "TIME":
			c.Min, c.Value = len("01-02 15:04:05"), func(v listing.View, e event) string { return e.dayTime(v) }
		default:
			c.Min = 0
		}
		l.Columns = append(l.Columns, c)
	}
	return l
}

// dayTime returns the time without its year, in UTC.
func (e event) dayTime(v listing.View) string {
	t, err := time.Parse(time.RFC3339Nano, e.Time)
	if err != nil {
		return e.shortTime(v)
	}
	return t.UTC().Format("01-02 15:04:05")
}

func (e event) shortTime(v listing.View) string {
	if v.Wide {
		return e.Time
	}
	t, err := time.Parse(time.RFC3339Nano, e.Time)
	if err != nil {
		return e.Time
	}
	return t.UTC().Format(time.RFC3339)
}

// shortKey shortens each id in a key to its handle, as lists print it.
func shortKey(v listing.View, key string) string {
	if v.Wide {
		return key
	}
	parts := strings.Split(key, ".")
	for i, p := range parts {
		if ident.IsUUID(p) {
			parts[i] = ident.Handle(p)
		}
	}
	return strings.Join(parts, ".")
}

// eventPrinter prints facts as they are read. A document, a sorted listing and the last N facts are printed at the end;
// everything else part by part, so that the length of the ledger does not matter. Where facts are followed, a filter
// runs for each.
type eventPrinter struct {
	env     *cli.Env
	limit   int
	last    bool                 // the limit selects the last facts
	follow  bool                 // there is no last fact
	parts   *output.Parts[event] // keeps the columns from one part to the next
	waiting []event
	printed int
}

// whole reports whether printing must wait for the last fact.
func (p *eventPrinter) whole() bool {
	return !p.env.Output.InParts() || p.last && p.limit > 0
}

// add accepts facts and reports whether it wants more.
func (p *eventPrinter) add(events []event) (more bool, err error) {
	p.waiting = append(p.waiting, events...)
	switch {
	case p.limit > 0 && p.last:
		p.waiting = p.waiting[max(0, len(p.waiting)-p.limit):]
	case p.limit > 0 && p.printed+len(p.waiting) >= p.limit:
		p.waiting = p.waiting[:p.limit-p.printed]
		return false, nil
	}
	if p.whole() {
		return true, nil
	}
	return true, p.flush()
}

// flush prints the waiting facts.
func (p *eventPrinter) flush() error {
	events := p.waiting
	p.waiting = nil
	if len(events) == 0 {
		return nil
	}
	p.printed += len(events)
	if p.follow && p.env.Output.Filter != nil {
		return output.FilterEach(p.env.Output, p.env.Output.View(), table, events)
	}
	if !p.env.Output.InParts() {
		return output.Show(p.env.Output, p.listing(), eventList{events}, events)
	}
	if p.parts == nil {
		p.parts = output.NewParts(p.env.Output, p.env.Output.View(), p.listing())
	}
	return p.parts.Show(events)
}

// end prints the rest, or an empty listing when no fact matched.
func (p *eventPrinter) end() error {
	if p.printed == 0 && len(p.waiting) == 0 {
		p.env.Empty = "no facts match"
		err := output.Show(p.env.Output, table, eventList{[]event{}}, nil)
		cli.SayEmpty(p.env, 0)
		return err
	}
	return p.flush()
}

// listing returns the listing of facts as the terminal has room for it.
func (p *eventPrinter) listing() listing.Listing[event] {
	o := p.env.Output
	if width := o.Width; width != nil && o.Format == output.FormatTable && len(o.Columns) == 0 {
		if w := width(); w >= least && w < roomy {
			return narrow()
		}
	}
	return table
}
