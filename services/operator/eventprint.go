package operator

import (
	"encoding/json"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// eventOf reads a fact. One that this binary does not know is shown with what is known of it.
func eventOf(m bus.Message) event {
	f, err := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence)
	if err != nil {
		return event{
			Sequence: m.Sequence, Time: m.Time.UTC().Format(time.RFC3339Nano), Noun: string(ledger.NounOf(m.Subject)),
			Key: m.Subject, Fact: "?", Body: json.RawMessage("null"), detail: err.Error(),
		}
	}
	body, err := encode(f.Body)
	if err != nil {
		body = json.RawMessage("null")
	}
	return event{
		Sequence: f.Sequence, ID: f.ID, Time: f.At.UTC().Format(time.RFC3339Nano), Noun: string(f.Noun), Key: f.Key, Fact: f.Name(),
		Source: f.Source, Actor: f.Actor, Request: f.Request, Cause: f.Cause, Trace: f.Trace, Body: body, detail: detailOf(f),
	}
}

// eventPrinter prints facts as they come. A document, a sorted listing and the last N
// need all of them first; everything else is printed part by part, so that a ledger of
// any length can be read.
type eventPrinter struct {
	s       *session
	limit   int
	last    bool // the limit means the last ones
	waiting []event
	printed int
}

// whole says whether nothing can be printed before the end.
func (p *eventPrinter) whole() bool {
	f := p.s.output.format
	return f == formatJSON || f == formatYAML || p.s.output.sort != "" || p.last && p.limit > 0
}

// add takes facts and says whether more are wanted.
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

// flush prints what is waiting; only the first part has a line of titles.
func (p *eventPrinter) flush() error {
	events := p.waiting
	p.waiting = nil
	if len(events) == 0 {
		return nil
	}
	headers := p.s.output.noHeaders
	defer func() { p.s.output.noHeaders = headers }()
	p.s.output.noHeaders = headers || p.printed > 0
	p.printed += len(events)
	return show(p.s, eventListing, eventList{events}, events)
}

// end prints the rest, and an empty listing when there was nothing.
func (p *eventPrinter) end() error {
	if p.printed == 0 && len(p.waiting) == 0 {
		return show(p.s, eventListing, eventList{[]event{}}, nil)
	}
	return p.flush()
}
