package console

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// factsSearched is how many facts a page looks through for those of one actor.
const factsSearched = 5000

// eventsPage is the ledger, the last fact first.
func eventsPage(v *visit) (*page, error) {
	q := client.Query{Noun: ledger.Noun(textOf(v.Request, "noun")), Key: textOf(v.Request, "key")}
	if q.Noun != "" && !q.Noun.Known() {
		return nil, fault.New(fault.Invalid, "the ledger has no noun %.60q", q.Noun)
	}
	if before := textOf(v.Request, "before"); before != "" {
		below, err := strconv.ParseUint(before, 10, 64)
		if err != nil {
			return nil, fault.New(fault.Invalid, "before must be the number of a fact, not %.40q", before)
		}
		q.Below = below
	}
	actor := textOf(v.Request, "actor")
	if actor != "" {
		if q.Below == 0 {
			end, err := v.client.LedgerEnd(v.Context())
			if err != nil {
				return nil, err
			}
			q.Below = end + 1
		}
		q.From = max(q.Below, factsSearched) - factsSearched
	}
	facts, err := v.client.LastEvents(v.Context(), rowsShown, q, func(e client.Event) bool {
		return actor == "" || e.Actor == actor
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(facts)
	if err := nameServersOf(v, facts, serverOf); err != nil {
		return nil, err
	}
	t := factsTable(v, facts)
	one := part{ID: "facts", Table: t}
	switch {
	case len(facts) == rowsShown:
		t.Next = v.with("before", fmt.Sprint(facts[len(facts)-1].Sequence))
	case q.From > 0:
		one.Note = fmt.Sprintf("%d facts were searched, back to %d.", q.Below-q.From, q.From)
		one.Older = v.with("before", fmt.Sprint(q.From))
	}
	return &page{
		Title: "Ledger", Command: commandOf("garrison events", v, "noun", "actor"),
		Search: &search{Name: "noun", Value: string(q.Noun), Hint: "Of a noun, as in server or rollout"},
		Parts:  []part{one},
	}, nil
}

// factsTable returns facts as rows.
func factsTable(v *visit, facts []client.Event) *table {
	t := &table{
		Columns: []string{"SEQ", "TIME", "ACTOR", "NOUN", "KEY", "FACT", "DETAIL"}, Empty: "Nothing.",
	}
	for _, f := range facts {
		text := ""
		switch {
		case f.Unread != nil:
			text = f.Unread.Error()
		case f.Body != nil:
			text = display.FactText(f.Fact)
		}
		if f.Note != "" {
			text += " (" + f.Note + ")"
		}
		t.Rows = append(t.Rows, []cell{
			{Text: fmt.Sprint(f.Sequence)}, {Text: f.At.UTC().Format(time.DateTime)},
			{Text: visible.Text(f.Actor), Link: actorLink(f.Actor)}, {Text: string(f.Noun)},
			{Text: keyText(v, f), Link: keyLink(f)}, {Text: f.Name()}, {Text: visible.Text(text)},
		})
	}
	return t
}

func actorLink(actor string) string {
	if actor == "" {
		return ""
	}
	return "/console/events?actor=" + url.QueryEscape(actor)
}

// keyText returns what a fact is about as a person calls it: a server and an agent by name.
func keyText(v *visit, f client.Event) string {
	id := serverOf(f)
	name := v.names[id]
	if name == "" {
		return visible.Text(ident.Handle(f.Key))
	}
	if of, ok := f.Body.(interface{ GetAgent() string }); ok && f.Noun == ledger.Instance && of.GetAgent() != "" {
		return name + " " + of.GetAgent()
	}
	return name
}

// keyLink returns the page of what a fact is about.
func keyLink(f client.Event) string {
	if f.Noun == ledger.Task && !ident.IsUUID(f.Key) {
		return ""
	}
	switch f.Noun {
	case ledger.Server, ledger.Instance:
		return pathOf("servers", serverOf(f))
	case ledger.Rollout, ledger.Intent, ledger.Task, ledger.Image:
		return pathOf(string(f.Noun)+"s", f.Key)
	}
	return ""
}

// serverOf returns the server that a fact is about, or an agent on it; empty for other facts.
func serverOf(f client.Event) string {
	if f.Noun != ledger.Server && f.Noun != ledger.Instance {
		return ""
	}
	server, _, _ := strings.Cut(f.Key, ".")
	return server
}
