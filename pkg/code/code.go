// Package code declares every refusal code once: its constant, its meaning, what to try,
// and the programs that refuse with it. A refusal (package fault) carries the code over
// the bus, into the ledger and to the person who reads it.
//
// Guarantees:
//
//  1. No other package spells a code: e2e/arch checks the source for literals.
//  2. Every declared code is used by the programs that its entry names, checked there too.
//  3. A code that was released keeps its meaning. Lookup resolves the ones that were merged
//     into another, because the ledger still holds them.
//
// garrison explain prints from this package, and so does [CODES.md], by the test with -update.
//
// To add a code: add the constant and its entry to the file of its subject, and run
// go test ./pkg/code -update.
//
// [CODES.md]: https://github.com/garrison-fleet/garrison/blob/main/pkg/code/CODES.md
package code

import (
	"slices"
	"strings"
)

// Entry describes one code.
type Entry struct {
	Code    string
	By      []string // the programs that refuse with it
	Meaning string   // one or two sentences
	Remedy  string   // what to try; words in capitals stand for names from the refusal
}

// The programs that refuse.
const (
	registry   = "registry"
	catalog    = "image-catalog"
	dispatcher = "task-dispatcher"
	access     = "access"
	executor   = "executor"
	cli        = "garrison"
	garrisond  = "garrisond"
)

var anyService = by(registry, catalog, dispatcher, access)

func by(programs ...string) []string { return programs }

// Group is the codes of one subject.
type Group struct {
	Subject string
	Entries []Entry
}

// Groups returns all codes by subject, in the order of their declaration.
func Groups() []Group {
	return []Group{
		{"Requests", requests},
		{"Formats and lost data", formats},
		{"Intents and plans", intents},
		{"Holds and notes", holds},
		{"Blocks", blocks},
		{"Records", records},
		{"Identities and logins", identities},
		{"Users", users},
		{"Images", images},
		{"Changes on a server", changes},
		{"Scans and adoptions", adoptions},
		{"Removals", removals},
		{"Output of agents", logReadings},
		{"Differences", differences},
		{"Rollouts", rollouts}, {"Requests about rollouts", rolloutRequests},
	}
}

var all = func() map[string]Entry {
	m := map[string]Entry{}
	for _, g := range Groups() {
		for _, e := range g.Entries {
			m[e.Code] = e
		}
	}
	return m
}()

// merged maps each code that was released once to the one that has its meaning now.
var merged = map[string]string{
	"CHANNEL_EXISTS":    Exists,
	"DIGEST_MISMATCH":   WrongDigest,
	"MOVED":             Conflict,
	"NOT_ALLOWED":       Denied,
	"NO_CHANNEL":        UnknownChannel,
	"NO_SERVER":         EmptySelector,
	"TOMBSTONE_INVALID": BadTombstone,
}

// Lookup returns the entry of a code, in any case, and reports whether there is one.
func Lookup(code string) (Entry, bool) {
	code = strings.ToUpper(code)
	if now := merged[code]; now != "" {
		code = now
	}
	e, ok := all[code]
	return e, ok
}

// All returns every entry, sorted by code.
func All() []Entry {
	var out []Entry
	for _, e := range all {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Code, b.Code) })
	return out
}
