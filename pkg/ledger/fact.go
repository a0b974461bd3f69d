// Package ledger is the one ordered log of facts: the kinds of facts, their
// writers, and their encoding as messages.
//
// A fact is a protobuf message about one noun and one key. Its subject is
// garrison.ledger.NOUN.KEY.FACT; its headers are the CloudEvents attributes in binary
// mode (CloudEvents 1.0, NATS protocol binding 1.0.2) and Garrison's own:
//
//	ce-specversion      1.0
//	ce-id               a UUID, also the message id for de-duplication
//	ce-type             the message's protobuf name, such as garrison.task.v1.Queued
//	ce-source           garrison/SERVICE
//	ce-subject          NOUN/KEY
//	ce-time             when it was decided, RFC 3339 with nanoseconds
//	Garrison-Actor      who asked, or the service when it acted by itself
//	Garrison-Request    the id of the request or intent that all of it began with
//	Garrison-Cause      what led to this very fact: intent/ID, report/SERVER/N, fact/SEQUENCE or request/ID
//	Garrison-Contract   the contract that a reader must know, and the writer's version, if that is not the first one
//	Garrison-Note       why, in the words of who asked, where the body has no place for that
//	traceparent         the W3C trace context of the cause, if it had one
//
// Guarantees:
//
//  1. Kinds lists every fact there is. A message that is not in it does not decode, nor does one that has a field or a
//     value that this program does not know: Decode names it (Newer).
//  2. Decode(Encode(f)) returns f.
//  3. A kind that was ever written is never renamed or removed.
//  4. Nothing is encoded that a reader of the contract in force does not know.
package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
	"unique"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/strict"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// Fact is something that the control plane has decided.
type Fact struct {
	Noun Noun
	Key  string        // the noun's key tokens, joined by dots
	Body proto.Message // one of Kinds; decides the fact's name

	ID      string    // a UUID
	At      time.Time // when it was decided, by the writer's clock
	Source  string    // the service that wrote it
	Actor   string    // who asked, or the service itself
	Request string    // the id of the request or intent that all of it began with
	Cause   string    // what led to this very fact; see Caused
	Trace   string    // traceparent of the cause, or empty
	Note    string    // why, in the words of who asked, where the body has no place for that; see CheckNote

	Sequence uint64 // its place in the ledger; 0 until it is recorded
}

// Key joins the tokens of a noun's key.
func Key(tokens ...string) string { return strings.Join(tokens, ".") }

// Name returns the fact's name, the last token of its subject; empty when its body is not one of Kinds.
func (f Fact) Name() string { return byType[typeName(f.Body)].Name }

// CausedByIntent returns the cause of a fact that an intent led to. The functions below name the other causes.
func CausedByIntent(id string) string { return "intent/" + id }

// CausedByRequest returns the cause of a fact that a request led to.
func CausedByRequest(id string) string { return "request/" + id }

// CausedByFact returns the cause of a fact that another fact led to.
func CausedByFact(sequence uint64) string { return "fact/" + strconv.FormatUint(sequence, 10) }

// CausedByReport returns the cause of a fact that a report led to.
func CausedByReport(server string, sequence uint64) string {
	return "report/" + server + "/" + strconv.FormatUint(sequence, 10)
}

// CausedByBeat returns the cause of a fact that a server's beats led to.
func CausedByBeat(server string) string { return "beat/" + server }

// ServerOfCause returns the server whose report or beats led to a fact with a cause.
func ServerOfCause(cause string) (server string, ok bool) {
	kind, rest, _ := strings.Cut(cause, "/")
	if kind != "report" && kind != "beat" {
		return "", false
	}
	server, _, _ = strings.Cut(rest, "/")
	return server, server != ""
}

// CausedByClock marks a fact that a deadline or a silence led to.
const CausedByClock = "clock"

// Guard makes a fact conditional: it is only recorded while the last sequence over
// Subject, which may hold wildcards, is Sequence.
type Guard struct {
	Subject  string
	Sequence uint64
}

// Draft is a fact to record, with its guard. The zero guard guards nothing.
type Draft struct {
	Fact
	Guard Guard
}

// OnKey drafts f on condition that the last fact on its own key is at sequence; 0 means that the key has no fact.
func OnKey(f Fact, sequence uint64) Draft {
	return Draft{Fact: f, Guard: Guard{Subject: KeySubject(f.Noun, f.Key), Sequence: sequence}}
}

// OnAllOf drafts f on condition that the last fact about what its key names is at sequence: on the key itself, and on
// the keys of other nouns that begin with it, as an instance's begins with its server. It costs the bus a search of
// these subjects, so it is for what is rare.
//
// On a cluster, a fact on another key that is on its way to the replicas is not seen.
func OnAllOf(f Fact, sequence uint64) Draft {
	return Draft{Fact: f, Guard: Guard{Subject: FactSubject("*", f.Key, ">"), Sequence: sequence}}
}

// Free drafts f without a condition.
func Free(f Fact) Draft { return Draft{Fact: f} }

// Prefix is the start of every fact's subject.
const Prefix = "garrison.ledger."

// AllSubjects matches every fact.
const AllSubjects = Prefix + ">"

// FactSubject returns the subject of a fact: garrison.ledger.NOUN.KEY.FACT.
func FactSubject(n Noun, key, fact string) string { return Prefix + string(n) + "." + key + "." + fact }

// Subject returns the fact's own subject.
func (f Fact) Subject() string { return FactSubject(f.Noun, f.Key, f.Name()) }

// KeySubject matches every fact on a key.
func KeySubject(n Noun, key string) string { return FactSubject(n, key, "*") }

// NounSubject matches every fact about a noun.
func NounSubject(n Noun) string { return Prefix + string(n) + ".>" }

// The names of headers.
const (
	headerID      = "ce-id"
	headerType    = "ce-type"
	headerSource  = "ce-source"
	headerSubject = "ce-subject"
	headerTime    = "ce-time"
	headerSpec    = "ce-specversion"
	HeaderActor   = "Garrison-Actor"
	HeaderRequest = "Garrison-Request"
	HeaderCause   = "Garrison-Cause"
	HeaderTrace   = "traceparent"
	HeaderNote    = "Garrison-Note"
)

// Encode returns the fact's headers and data. It refuses a fact that needs a higher contract than the one in force,
// which is the highest that each reader of the ledger knows.
func Encode(f Fact, inForce uint32) (header map[string][]string, data []byte, err error) {
	name := typeName(f.Body)
	k, ok := byType[name]
	if !ok || k.Noun != f.Noun {
		return nil, nil, fault.New(fault.Internal, "%s is not a fact about a %s", name, f.Noun)
	}
	if f.ID == "" || f.Key == "" || f.At.IsZero() || f.Actor == "" || f.Source == "" {
		return nil, nil, fault.New(fault.Internal, "fact %s.%s lacks id, key, time, actor or source", f.Noun, k.Name)
	}
	needs := Contract(f.Body)
	if needs > inForce {
		return nil, nil, fault.New(fault.Internal, "fact %s.%s needs contract %d, and contract %d is in force",
			f.Noun, k.Name, needs, inForce)
	}
	data, err = proto.Marshal(f.Body)
	if err != nil {
		return nil, nil, fault.New(fault.Internal, "encode %s: %w", name, err)
	}
	header = map[string][]string{
		headerSpec:    {"1.0"},
		headerID:      {f.ID},
		headerType:    {name},
		headerSource:  {"garrison/" + f.Source},
		headerSubject: {string(f.Noun) + "/" + f.Key},
		headerTime:    {f.At.UTC().Format(time.RFC3339Nano)},
		HeaderActor:   {f.Actor},
	}
	if needs > 1 {
		header[HeaderContract] = []string{contractHeader(needs)}
	}
	for name, v := range map[string]string{
		HeaderRequest: f.Request, HeaderCause: f.Cause, HeaderTrace: f.Trace, HeaderNote: f.Note,
	} {
		if v != "" {
			header[name] = []string{v}
		}
	}
	return header, data, nil
}

// Decode reads a fact from a message at a place in the ledger. The fact shares no memory with the message. An error is
// Invalid, and wraps a *Newer when this program does not know all of the fact. What it knows is then returned too.
func Decode(subject string, header map[string][]string, data []byte, sequence uint64) (Fact, error) {
	noun, key, name, ok := split(subject)
	if !ok {
		return Fact{}, fault.New(fault.Invalid, "subject %q is not a fact's", subject)
	}
	contract, writer := readContract(first(header, HeaderContract))
	k, ok := bySubject[[2]string{noun, name}]
	if !ok {
		return Fact{}, newer(writer, "there is no fact %s.%s", noun, name)
	}
	body := k.Body.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(data, body); err != nil {
		return Fact{}, fault.New(fault.Invalid, "decode fact %s.%s at %d: %w", noun, name, sequence, err)
	}
	at, err := time.Parse(time.RFC3339Nano, first(header, headerTime))
	if err != nil {
		return Fact{}, fault.New(fault.Invalid, "time of fact at %d: %w", sequence, err)
	}
	f := Fact{
		Noun: k.Noun, Key: strings.Clone(key), Body: body, At: at, Sequence: sequence,
		Source: unique.Make(strings.TrimPrefix(first(header, headerSource), "garrison/")).Value(),
		Actor:  unique.Make(first(header, HeaderActor)).Value(), Trace: strings.Clone(first(header, HeaderTrace)),
		Note: strings.Clone(first(header, HeaderNote)),
	}
	f.ID, f.Request, f.Cause = own(first(header, headerID), first(header, HeaderRequest), first(header, HeaderCause))
	if !strict.Knows(data, body.ProtoReflect().Descriptor()) {
		if err := strict.Check(body); err != nil {
			return f, newer(writer, "%v", err)
		}
	}
	if contract > version.Contract {
		return f, newer(writer, "it needs contract %d, and this program knows %d", contract, version.Contract)
	}
	return f, nil
}

func newer(writer, format string, args ...any) error {
	return fault.New(fault.Invalid, "%w", &Newer{What: fmt.Sprintf(format, args...), Writer: strings.Clone(writer)})
}

// own returns copies of texts. A text of a header is a part of the whole header block, which a record that keeps the
// text would keep with it: more than most records take themselves.
func own(a, b, c string) (ownA, ownB, ownC string) {
	all := a + b + c
	return all[:len(a)], all[len(a) : len(a)+len(b)], all[len(a)+len(b):]
}

// KeyOf returns the noun and key of a ledger subject, whether or not its fact is known.
func KeyOf(subject string) (n Noun, key string, ok bool) {
	noun, key, _, ok := split(subject)
	return Noun(noun), key, ok
}

// NameOf returns the fact's name in a ledger subject, whether or not it is known; empty
// when the subject has none.
func NameOf(subject string) string {
	_, _, name, _ := split(subject)
	return name
}

// NounOf returns the noun of a ledger subject, without decoding anything; empty when it has none.
func NounOf(subject string) Noun {
	rest, ok := strings.CutPrefix(subject, Prefix)
	if !ok {
		return ""
	}
	n, _, _ := strings.Cut(rest, ".")
	return Noun(n)
}

func split(subject string) (noun, key, name string, ok bool) {
	rest, ok := strings.CutPrefix(subject, Prefix)
	if !ok {
		return "", "", "", false
	}
	noun, rest, ok = strings.Cut(rest, ".")
	i := strings.LastIndexByte(rest, '.')
	if !ok || i < 1 {
		return "", "", "", false
	}
	return noun, rest[:i], rest[i+1:], true
}

func first(h map[string][]string, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// traceparent is the header of version 00 of W3C Trace Context.
var traceparent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

const (
	noTrace = "00000000000000000000000000000000"
	noSpan  = "0000000000000000"
)

// CheckTrace returns a traceparent as it is, or "" for any other text: a sender decides what the header holds, and the
// ledger keeps it.
func CheckTrace(header string) string {
	if !traceparent.MatchString(header) || header[3:35] == noTrace || header[36:52] == noSpan {
		return ""
	}
	return header
}

// MaxNote is the longest note, in bytes.
const MaxNote = 500

// CheckNote returns a note as it is, or "" for a text that is too long or not one printable line.
func CheckNote(header string) string {
	if len(header) > MaxNote || strings.ContainsFunc(header, func(c rune) bool {
		return c == utf8.RuneError || !unicode.IsPrint(c)
	}) {
		return ""
	}
	return header
}

// Mark returns a short digest of a recorded fact's place, id and time. Two ledgers that differ at a place have
// different marks there. It is never 0.
func Mark(f Fact) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", f.Sequence, f.ID, f.At.UTC().Format(time.RFC3339Nano)))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}
