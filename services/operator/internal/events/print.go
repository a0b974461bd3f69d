package events

import (
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// eventPrinter prints facts as they are read. A document, a sorted listing and the last N facts are printed at the end;
// everything else part by part, so that the length of the ledger does not matter.
type eventPrinter struct {
	env     *cli.Env
	limit   int
	last    bool // the limit selects the last facts
	waiting []event
	printed int
}

// whole reports whether printing must wait for the last fact.
func (p *eventPrinter) whole() bool {
	f := p.env.Output.Format
	return f == output.FormatJSON || f == output.FormatYAML || p.env.Output.Sort != "" || p.last && p.limit > 0
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

// flush prints the waiting facts; only the first part has headers.
func (p *eventPrinter) flush() error {
	events := p.waiting
	p.waiting = nil
	if len(events) == 0 {
		return nil
	}
	headers := p.env.Output.NoHeaders
	defer func() { p.env.Output.NoHeaders = headers }()
	p.env.Output.NoHeaders = headers || p.printed > 0
	p.printed += len(events)
	return output.Show(p.env.Output, listing, eventList{events}, events)
}

// end prints the rest, or an empty listing when no fact matched.
func (p *eventPrinter) end() error {
	if p.printed == 0 && len(p.waiting) == 0 {
		return output.Show(p.env.Output, listing, eventList{[]event{}}, nil)
	}
	return p.flush()
}
