package operator

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
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
	since  string
	noun   string
	id     string
	page   pageFlags
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
	c.Flags().StringVar(&f.since, "since", "", "only facts since a `TIME` (RFC 3339) or for so long (10m, 2h)")
	c.Flags().StringVar(&f.noun, "noun", "", "only facts about this `NOUN`")
	c.Flags().StringVar(&f.id, "id", "", "only facts whose key or request has this `ID` or name; eight characters from an id's start or end are enough")
	c.Flags().Uint32Var(&f.page.limit, "limit", 0, "with --since or --cursor the first, otherwise the last this many `FACTS`; 0 means all")
	c.Flags().StringVar(&f.page.cursor, "cursor", "", "begin at this `SEQUENCE`")
	return c
}

// reader reads facts that fit, in order.
type reader struct {
	conn   *bus.Conn
	filter string
	id     string
	next   uint64
}

func (s *session) events(ctx context.Context, f eventFlags) error {
	if err := s.checkEvents(f); err != nil {
		return err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	r := &reader{conn: conn, filter: "garrison.ledger.>", id: f.id, next: 1}
	if f.noun != "" {
		r.filter = ledger.NounSubject(ledger.Noun(f.noun))
	}
	if err := r.seek(ctx, f, s.now()); err != nil {
		return s.readError(ctx, err)
	}
	p := &eventPrinter{s: s, limit: int(f.page.limit), last: f.since == "" && f.page.cursor == ""}
	if f.follow {
		err = s.follow(ctx, r, p)
	} else if err = r.read(ctx, p.add); err == nil {
		err = p.end()
	}
	return s.readError(ctx, err)
}

// readError says why reading ended; a Ctrl-C while following is the usual end.
func (s *session) readError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *session) checkEvents(f eventFlags) error {
	var nouns []string
	for _, k := range ledger.Kinds {
		if !slices.Contains(nouns, string(k.Noun)) {
			nouns = append(nouns, string(k.Noun))
		}
	}
	if f.noun != "" && !slices.Contains(nouns, f.noun) {
		return usage("--noun %q is not a noun (want %s)", f.noun, strings.Join(nouns, ", "))
	}
	if f.follow && (s.output.format == formatJSON || s.output.format == formatYAML) {
		return usage("--follow never ends, and %s is one document. Try: -o jsonl", s.output.format)
	}
	if f.follow && s.output.sort != "" {
		return usage("--follow never ends, and cannot be sorted")
	}
	return nil
}

// seek finds where to begin.
func (r *reader) seek(ctx context.Context, f eventFlags, now time.Time) error {
	if f.page.cursor != "" {
		n, err := strconv.ParseUint(f.page.cursor, 10, 64)
		if err != nil {
			return usage("--cursor %q is not a sequence", f.page.cursor)
		}
		r.next = n
	}
	if f.since == "" {
		return nil
	}
	since, err := parseSince(f.since, now)
	if err != nil {
		return err
	}
	n, err := r.firstSince(ctx, since)
	r.next = max(r.next, n)
	return err
}

func parseSince(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d.Abs()), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, usage("--since %q is neither a time such as 2026-01-31T12:00:00Z nor how long ago, such as 10m", text)
	}
	return t, nil
}

// firstSince finds the first fact that was stored at a time or later. Facts are stored
// in the order of time, so that halving finds it with a few dozen reads.
func (r *reader) firstSince(ctx context.Context, since time.Time) (uint64, error) {
	before := func(sequence uint64) (bool, error) {
		m, err := r.conn.DirectGetFrom(ctx, topology.Ledger, "garrison.ledger.>", sequence, 1)
		return err == nil && len(m) > 0 && m[0].Time.Before(since), err
	}
	low, high := uint64(0), uint64(1)
	for {
		older, err := before(high)
		if err != nil {
			return 0, err
		}
		if !older {
			break
		}
		low, high = high, high*2
	}
	for high-low > 1 {
		middle := low + (high-low)/2
		older, err := before(middle)
		if err != nil {
			return 0, err
		}
		if older {
			low = middle
		} else {
			high = middle
		}
	}
	return high, nil
}

// read hands every fact that is there now to f.
func (r *reader) read(ctx context.Context, f func([]event) (more bool, err error)) error {
	for {
		messages, err := r.conn.DirectGetFrom(ctx, topology.Ledger, r.filter, r.next, factsAtOnce)
		if err != nil {
			return err
		}
		var events []event
		for _, m := range messages {
			r.next = m.Sequence + 1
			if e := eventOf(m); e.matches(r.id) {
				events = append(events, e)
			}
		}
		more, err := f(events)
		if err != nil || !more || len(messages) < factsAtOnce {
			return err
		}
	}
}

// follow reads, and reads again when the bell of the ledger rings.
func (s *session) follow(ctx context.Context, r *reader, p *eventPrinter) error {
	bell := make(chan struct{}, 1)
	stop, err := r.conn.Subscribe(topology.TailSubject, func(bus.Message) {
		select {
		case bell <- struct{}{}:
		default: // it rings already
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	again := time.NewTicker(listenAgain)
	defer again.Stop()
	for {
		if err := r.read(ctx, p.add); err != nil && !fault.Is(err, fault.Unavailable) {
			return err
		}
		if err := p.flush(); err != nil {
			return err
		}
		p.last = false // what comes from now on is all shown
		p.limit = 0
		select {
		case <-ctx.Done():
			return ended(exitInterrupted)
		case <-bell:
		case <-again.C:
		}
	}
}

// leastOfID is how much of an id must be given to find it: what tables show of one.
const leastOfID = 8

// matches says whether an id or a name is a part of the fact's key, or its request. The
// start or the end of an id is enough, as tables show it.
func (e event) matches(id string) bool {
	if id == "" || e.Key == id {
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
