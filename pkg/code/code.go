// Package code declares every refusal code once: its constant, its meaning, what to try, and the programs that refuse
// with it. A refusal (package fault) carries the code over the bus, into the ledger and to the person who reads it.
//
// Guarantees:
//
//  1. No other package spells a code: e2e/arch checks the source for literals.
//  2. Every declared code is used by the programs that its entry names, checked there too.
//  3. A code that was released keeps its meaning. Lookup resolves the ones that were merged
//     into another, because the ledger still holds them.
//
// The codes stand in [CODES.md], which the programs carry, and codes.go with their constants is generated from that
// page. To add a code, add it to the page and run go generate ./pkg/code. garrison explain prints the same.
//
// [CODES.md]: https://github.com/garrison-fleet/garrison/blob/main/pkg/code/CODES.md
package code

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/garrison-fleet/garrison/pkg/code/page"
)

//go:generate go run ./generate

// Entry describes one code.
type Entry = page.Item

//go:embed CODES.md
var text string

// entries returns all entries, sorted by code. The page is read when the first one is asked for.
var entries = sync.OnceValue(func() []Entry {
	items, err := page.Read(text)
	if err != nil {
		panic("CODES.md: " + err.Error()) // a test of the generator reads the same page
	}
	slices.SortFunc(items, func(a, b Entry) int { return strings.Compare(a.Code, b.Code) })
	return items
})

// merged maps each code that was released once to the one that has its meaning now.
var merged = map[string]string{
	"BAD_ADDRESS_RANGE":    Invalid,
	"BAD_BLOCK":            Invalid,
	"BAD_CLEAN_UP":         Invalid,
	"BAD_DEPENDENCY":       Invalid,
	"BAD_DRIFT_POLICY":     Invalid,
	"BAD_DURATION":         Invalid,
	"BAD_FILTER":           Invalid,
	"BAD_HOLD":             Invalid,
	"BAD_KEEP":             Invalid,
	"BAD_KIND":             Invalid,
	"BAD_KNOCK":            Invalid,
	"BAD_LABEL":            Invalid,
	"BAD_LABEL_RULE":       Invalid,
	"BAD_OWNER":            Invalid,
	"BAD_PAGE":             Invalid,
	"BAD_REACH":            Invalid,
	"BAD_REPORT":           Invalid,
	"BAD_ROLE":             Invalid,
	"BAD_TEXT":             Invalid,
	"BAD_USES":             Invalid,
	"BAD_WANTED":           Invalid,
	"BAD_WINDOW":           Invalid,
	"CANARIES_EXCEED_WAVE": BadStrategy,
	"CHANNEL_EXISTS":       Exists,
	"CHUNK_MISMATCH":       WrongDigest,
	"CORRUPT":              WrongDigest,
	"DIGEST_MISMATCH":      WrongDigest,
	"DUPLICATE_NAME":       BadArchive,
	"KIND_FIXED":           FieldFixed,
	"MOVED":                Conflict,
	"NOT_ACCEPTED":         NotWithdrawable,
	"NOT_ALLOWED":          Denied,
	"NOT_BLOCKED":          NotFound,
	"NOT_HELD":             NotFound,
	"NOT_WAITING":          NotFound,
	"NO_CHANNEL":           UnknownChannel,
	"NO_RECIPE":            BadRecipe,
	"NO_SERVER":            EmptySelector,
	"SPECIAL_MODE":         BadArchive,
	"TOMBSTONE_INVALID":    BadTombstone,
	"TOO_MANY_INSTANCES":   TooMany,
	"TOO_MANY_SERVERS":     TooMany,
	"TRUNCATED":            NotAnImage,
	"UNKNOWN_APPLICATION":  NotFound,
	"UNKNOWN_CANDIDATE":    NotFound,
	"UNKNOWN_CODE":         NotFound,
	"UNKNOWN_CONTEXT":      NotFound,
	"UNKNOWN_DEFAULT":      NotFound,
	"UNKNOWN_INTENT":       NotFound,
	"UNKNOWN_KEY":          BadRecipe,
	"UNKNOWN_LABEL_RULE":   NotFound,
	"UNKNOWN_ROLLOUT":      NotFound,
	"UNKNOWN_TASK":         NotFound,
	"UNKNOWN_USER":         NotFound,
	"UNSAFE_PATH":          BadArchive,
}

// Lookup returns the entry of a code, in any case, and reports whether there is one.
func Lookup(code string) (Entry, bool) {
	code = strings.ToUpper(code)
	if now := merged[code]; now != "" {
		code = now
	}
	at, ok := slices.BinarySearchFunc(entries(), code, func(e Entry, code string) int {
		return strings.Compare(e.Code, code)
	})
	if !ok {
		return Entry{}, false
	}
	return entries()[at], true
}

// All returns every entry, sorted by code.
func All() []Entry { return slices.Clone(entries()) }

// OfBuild reports whether an agent that was observed with a code may be bad because of its image or configuration: it
// does not stay up, or fails its probe.
func OfBuild(observed string) bool {
	return observed == NotRunning || observed == CrashLoop || observed == ProbeFails
}

// OfServer reports whether a change that failed with a code failed for the sake of its server: the version before it
// failed in the same way, its root, its disk or its libraries do not suffice, the executor ended in between, or the bus
// was away.
func OfServer(outcome string) bool {
	switch outcome {
	case BadAsBefore, NoSpace, OtherFileSystem, RootNoexec, RootReadOnly, RootFaulty, MissingLibrary, Interrupted,
		NotWanted, BusLost:
		return true
	}
	return false
}

// EndsByBuild reports whether a change ended with a code that speaks of what it brought: it does not start or stay up,
// or it takes down its server or the way there.
func EndsByBuild(outcome string) bool {
	switch outcome {
	case NotStarted, NotReady, Exited, Unstable, RehearsalFailed, CrashedExecutor, CutOff:
		return true
	}
	return false
}

// notRetried are the causes that asking for the same again does not cure: a person must change something first.
var notRetried = map[string]bool{
	ExecutorTooOld: true, WrongPlatform: true, UnsupportedKind: true, NoSpace: true, Conflicts: true,
	RootNoexec: true, RootReadOnly: true, RootFaulty: true, MissingLibrary: true, OtherFileSystem: true,
	MissingDependency: true, RequirementUnmet: true,
	UnsignedImage: true, UnknownSigner: true, BadSignature: true, ImageKeysUnreadable: true,
	BadManifest: true, WrongID: true, Outside: true, BadVersion: true, BadName: true, UnknownPlatform: true,
	UnfitMachine: true,
	InvalidImage: true, BadTemplate: true, UnknownVariable: true, BadVariable: true, SecretMissing: true,
	CannotConfine: true, BadSocket: true, ServerFull: true, RunsBeside: true, FilesStay: true, Mounted: true,
	OtherSelf: true, ServiceDisabled: true, LinkBlocked: true, RepairDidNotHold: true, CrashLoop: true,
}

// RetryHelps reports whether asking for the same again may cure a difference with this cause.
func RetryHelps(code string) bool { return !notRetried[code] }

// healed are the causes that executors cure by themselves under the drift policy heal. An agent that fails by itself
// does not drift.
var healed = map[string]bool{
	LinkMissing: true, LinkElsewhere: true, ImageLost: true, Damaged: true, ConfigurationChanged: true,
	ProcessStopped: true, DirectoryMissing: true, AgentLost: true, WrongImage: true, OtherDigest: true,
	ConfigurationDiffers: true,
}

// Healed reports whether a difference with this cause is drift, which executors heal.
func Healed(code string) bool { return healed[code] }

// Restarted reports whether what comes next, for a difference with this cause, is a start of the agent's process.
func Restarted(code string) bool { return code == CrashLoop || code == NotRunning }

// RendersNot reports whether a difference with this cause ends when a template finds the value that its reason names.
func RendersNot(code string) bool { return code == BadTemplate }

// LacksVariable reports whether a difference with this cause ends when the server gets a value that its reason names.
func LacksVariable(code string) bool { return code == UnknownVariable }
