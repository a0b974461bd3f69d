package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

const (
	// factsAtOnce is how many facts are read at a time.
	factsAtOnce = 500
	// listenAgain is when the ledger is read although no bell rang; one may be lost.
	listenAgain = 5 * time.Second
)

// event is a fact with everything that is known about it, for JSON.
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
	Body     json.RawMessage `json:"body"`
	detail   string
}

type eventList struct {
	Events []event `json:"events"`
}

var eventListing = listing[event]{
	name: func(e event) string { return strconv.FormatUint(e.Sequence, 10) },
	columns: []column[event]{
		{title: "SEQ", min: 6, value: func(_ view, e event) string { return strconv.FormatUint(e.Sequence, 10) }},
		{title: "TIME", min: 20, value: func(v view, e event) string { return e.shortTime(v) }, key: func(e event) string { return e.Time }},
		{title: "ACTOR", min: 15, value: func(_ view, e event) string { return e.Actor }},
		{title: "NOUN", min: 11, value: func(_ view, e event) string { return e.Noun }},
		{title: "KEY", min: 17, value: func(v view, e event) string { return shortKey(v, e.Key) }},
		{title: "FACT", min: 12, value: func(_ view, e event) string { return e.Fact }},
		{title: "DETAIL", value: func(_ view, e event) string { return e.detail }},
		{title: "REQUEST", wide: true, value: func(_ view, e event) string { return e.Request }},
		{title: "CAUSE", wide: true, value: func(_ view, e event) string { return e.Cause }},
		{title: "SOURCE", wide: true, value: func(_ view, e event) string { return e.Source }},
		{title: "ID", wide: true, value: func(_ view, e event) string { return e.ID }},
	},
}

func (e event) shortTime(v view) string {
	if v.wide {
		return e.Time
	}
	t, err := time.Parse(time.RFC3339Nano, e.Time)
	if err != nil {
		return e.Time
	}
	return t.UTC().Format(time.RFC3339)
}

// shortKey shortens each id in a key so that it still tells: time-ordered ids differ at
// their end, computed ones everywhere, and their start is what other commands take.
func shortKey(v view, key string) string {
	if v.wide {
		return key
	}
	parts := strings.Split(key, ".")
	for i, p := range parts {
		switch {
		case !ident.IsUUID(p):
		case p[14] == '7':
			parts[i] = "…" + p[24:]
		default:
			parts[i] = ident.Short(p)
		}
	}
	return strings.Join(parts, ".")
}

// eventFlags say which facts are wanted.
type eventFlags struct {
	follow bool
	since  time.Time
	noun   string
	id     string
	limit  uint32
	from   uint64
}

func (s *session) eventsCommand() *cobra.Command {
	var f eventFlags
	c := &cobra.Command{
		Use: "events", Short: "Read the ledger: what was decided, when, and who asked", Args: exactly(),
		Example: "  garrison events --since 10m --noun task\n" +
			"  garrison events -f -o jsonl",
		RunE: func(c *cobra.Command, _ []string) error { return s.events(c.Context(), f) },
	}
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with new facts until Ctrl-C")
	c.Flags().Var(valueOf(&f.since, s.parseSince, func(time.Time) string { return "" }), "since", "only facts since a `TIME` (RFC 3339) or for so long (10m, 2h)")
	textVar(c.Flags(), &f.noun, "noun", oneOf("noun", nouns()), "only facts about this `NOUN`: "+strings.Join(nouns(), ", "))
	textVar(c.Flags(), &f.id, "id", said("id"), "only facts whose key or request has this `ID`, the name of an agent or of a server; eight characters from an id's start or end are enough")
	limitVar(c.Flags(), &f.limit, "limit", 0, "with --since or --cursor the first, otherwise the last this many `FACTS`, or all")
	c.Flags().Var(valueOf(&f.from, parseSequence, func(uint64) string { return "" }), "cursor", "begin at this `SEQUENCE`")
	return c
}

func (s *session) events(ctx context.Context, f eventFlags) error {
	if err := s.checkEvents(f); err != nil {
		return err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	r := newReader(conn, f, s.idsOf(ctx, f.id))
	p := &eventPrinter{s: s, limit: int(f.limit), last: f.last()}
	if f.follow {
		return s.readError(ctx, s.follow(ctx, r, p))
	}
	if err = r.readAll(ctx, p.add); err == nil {
		err = p.end()
	}
	return s.readError(ctx, err)
}

// last reports whether the limit means the last facts.
func (f eventFlags) last() bool { return f.since.IsZero() && f.from == 0 }

// readError says why reading ended; a Ctrl-C while following is the usual end.
func (s *session) readError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// idsOf gives what a fact may bear that a person asks for by an id or a name. Facts are about
// a server by its id, and the registry knows its name; without it the ledger can still be read.
func (s *session) idsOf(ctx context.Context, given string) []string {
	if given == "" {
		return nil
	}
	ids := []string{given}
	if ident.IsUUID(given) || ident.CheckHostname("server", given) != nil {
		return ids
	}
	found, err := s.getServer(ctx, given)
	if err != nil && !fault.Is(err, fault.NotFound) {
		s.say("%s is not looked for as the name of a server: %v", given, err)
	}
	if found.GetName() == given {
		ids = append(ids, found.GetId())
	}
	return ids
}

// nouns lists what facts are about.
func nouns() []string {
	var out []string
	for _, k := range ledger.Kinds {
		if !slices.Contains(out, string(k.Noun)) {
			out = append(out, string(k.Noun))
		}
	}
	return out
}

func (s *session) checkEvents(f eventFlags) error {
	if f.follow && (s.output.format == formatJSON || s.output.format == formatYAML) {
		return usage("--follow never ends, and %s is one document. Try: -o jsonl", s.output.format)
	}
	if f.follow && s.output.sort != "" {
		return usage("--follow never ends, and cannot be sorted")
	}
	return nil
}

func (s *session) parseSince(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return s.now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("%q is neither a time such as 2026-01-31T12:00:00Z nor how long ago, such as 10m", text)
	}
	return t, nil
}

func parseSequence(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not the sequence of a fact, a whole number from 1 on", text)
	}
	return n, nil
}

// leastOfID is how much of an id must be given to find it: what tables show of one.
const leastOfID = 8

// matches says whether the fact has one of the ids, if there are any.
func (e event) matches(ids []string) bool { return len(ids) == 0 || slices.ContainsFunc(ids, e.has) }

// has says whether an id or a name is a part of the fact's key, or its request. The start
// or the end of an id is enough, as tables show it.
func (e event) has(id string) bool {
	if e.Key == id {
		return true
	}
	if first, rest, ok := strings.Cut(id, "."); ok && strings.HasPrefix(first, "…") { // …000000000001.beacon
		own, ofKey, _ := strings.Cut(e.Key, ".")
		return ofKey == rest && isPartOf(first, own)
	}
	return isPartOf(id, e.Request) || slices.ContainsFunc(strings.Split(e.Key, "."), func(part string) bool { return isPartOf(id, part) })
}

// isPartOf says whether what a person gave is a name or id, or the start or end of an id.
func isPartOf(given, whole string) bool {
	if given == whole {
		return true
	}
	given = strings.ToLower(strings.TrimPrefix(given, "…"))
	return ident.IsUUID(whole) && len(given) >= leastOfID && (strings.HasPrefix(whole, given) || strings.HasSuffix(whole, given))
}
