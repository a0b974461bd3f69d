package client

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// idHeader is where a fact has its id, see package ledger.
const idHeader = "ce-id"

// Event is a fact as the ledger stores it.
type Event struct {
	ledger.Fact

	Subject  string    // garrison.ledger.NOUN.KEY.FACT
	StoredAt time.Time // when the ledger stored it
	Unread   error     // what of the fact this program does not know; its body holds the rest, and is nil without any

	Stored *registryv1.StoredFact // the fact as the registry read it, undecoded
}

// Name returns the fact's name, that of its subject when its body cannot be read.
func (e Event) Name() string {
	if e.Body != nil {
		return e.Fact.Name()
	}
	return e.Subject[strings.LastIndexByte(e.Subject, '.')+1:]
}

// Position is a place in the ledger: behind the fact with this sequence and id. Without an id it is behind whatever
// fact has the sequence. The zero Position is the start of the ledger.
type Position struct {
	Sequence uint64
	ID       string
}

// Position returns the place behind the event, from which Follow resumes.
func (e Event) Position() Position { return Position{e.Sequence, e.ID} }

// eventOf decodes a fact.
func eventOf(f *registryv1.StoredFact) Event {
	header := make(map[string][]string, len(f.GetHeaders()))
	for name, value := range f.GetHeaders() {
		header[name] = []string{value}
	}
	data := f.GetBody().GetValue()
	if f.GetBody() == nil {
		data = f.GetUnknownBody()
	}
	e := Event{Subject: f.GetSubject(), StoredAt: f.GetStoredAt().AsTime(), Stored: f}
	e.Fact, e.Unread = ledger.Decode(f.GetSubject(), header, data, f.GetSequence())
	if n := f.GetLeftOutBytes(); n > 0 {
		e.Body, e.Unread = nil, fault.New(fault.Invalid, "its body of %d bytes does not fit into an answer", n)
	}
	if e.Body == nil {
		noun, key, ok := ledger.KeyOf(f.GetSubject())
		if !ok {
			key = f.GetSubject()
		}
		h := f.GetHeaders()
		e.Fact = ledger.Fact{
			Noun: noun, Key: key, At: e.StoredAt, ID: h[idHeader], Sequence: f.GetSequence(),
			Actor: h[ledger.HeaderActor], Request: h[ledger.HeaderRequest], Cause: h[ledger.HeaderCause],
		}
	}
	return e
}

// ResetError ends the reading of a ledger that does not continue what was read. The reader discards what it derived
// from the facts that are gone, and continues with Query.From set to Next.
type ResetError struct {
	Last Position // behind which reading was to continue
	Next uint64   // the first sequence that can be read: 1, or the one behind the missing facts
}

// Error says what happened to the ledger.
func (e *ResetError) Error() string {
	if e.Next > e.Last.Sequence {
		return fmt.Sprintf("the ledger lacks the facts %d to %d", e.Last.Sequence+1, e.Next-1)
	}
	return fmt.Sprintf("the ledger no longer has fact %d that was read before; it was set back, "+
		"as by a restored backup", e.Last.Sequence)
}

// Filter selects facts in the words of garrison events. The zero Filter selects all; of a list, one must match.
type Filter struct {
	Nouns []string // what the facts are about
	Facts []string // their names, such as failed
	Actor string   // a user or a service
	IDs   []string // ids, or the start or the end of one, or names, in their keys or as their request
}

// Fits reports whether the filter selects a fact.
func (f Filter) Fits(e Event) bool {
	return (len(f.Nouns) == 0 || slices.Contains(f.Nouns, string(e.Noun))) &&
		(len(f.Facts) == 0 || slices.Contains(f.Facts, e.Name())) && (f.Actor == "" || f.Actor == e.Actor) &&
		(len(f.IDs) == 0 || slices.ContainsFunc(f.IDs, e.has))
}

// has reports whether an id or a name is part of the fact's key or is its request. The start or the end of an id
// suffices.
func (e Event) has(id string) bool {
	if e.Key == id {
		return true
	}
	if first, rest, ok := strings.Cut(id, "."); ok && ident.CanBePart(first) { // 01900000-0000.beacon
		own, ofKey, _ := strings.Cut(e.Key, ".")
		return ofKey == rest && ident.IsPart(first, own)
	}
	return ident.IsPart(id, e.Request) ||
		slices.ContainsFunc(strings.Split(e.Key, "."), func(part string) bool { return ident.IsPart(id, part) })
}
