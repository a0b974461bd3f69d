package events

import (
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

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
		return output.FilterEach(p.env.Output, p.env.Output.View(), listing, events)
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
		return output.Show(p.env.Output, listing, eventList{[]event{}}, nil)
	}
	return p.flush()
}

// listing returns the listing of facts as the terminal has room for it.
func (p *eventPrinter) listing() output.Listing[event] {
	o := p.env.Output
	if width := o.Width; width != nil && o.Format == output.FormatTable && len(o.Columns) == 0 {
		if w := width(); w >= least && w < roomy {
			return narrow(w)
		}
	}
	return listing
}
