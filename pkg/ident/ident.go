// Package ident makes and checks the identifiers that travel in subjects.
//
// Every id is one subject token. Things that happen get time-ordered UUIDs (version
// 7); things that must not be made twice get a UUID computed from what they are about
// (version 5), so that two writers who decide the same thing choose the same id.
package ident

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// New returns a time-ordered UUID. It is a variable of its callers, not read in cores.
func New() string { return uuid.Must(uuid.NewV7()).String() }

// space is the name space of every computed id of Garrison.
var space = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("garrison"))

// From computes a UUID from what it is about. The same parts give the same id everywhere.
func From(parts ...string) string {
	return uuid.NewSHA1(space, []byte(strings.Join(parts, "\x00"))).String()
}

// Check refuses what is not a UUID in its usual lower-case form. what names it in the error.
func Check(what, id string) error {
	u, err := uuid.Parse(id)
	if err != nil || u.String() != id {
		return fault.New(fault.Invalid, "%s %q is not a UUID (want 8-4-4-4-12 lower-case hexadecimal digits)", what, id)
	}
	return nil
}

// IsUUID reports whether s is a UUID in its usual lower-case form.
func IsUUID(s string) bool {
	u, err := uuid.Parse(s)
	return err == nil && u.String() == s
}

// Lengths in bytes. They are not in the patterns, whose compilation would cost each program half a millisecond.
const (
	longestName     = 63
	longestHostname = 253
)

var (
	name     = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$`)
	hostname = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
)

// CheckName refuses what cannot be the name of an agent, application, environment,
// channel, cell or actor: 1 to 63 lower-case letters, digits, inner dashes and underscores.
func CheckName(what, s string) error {
	if len(s) > longestName || !name.MatchString(s) {
		return fault.New(fault.Invalid,
			"%s %q is not a name (want 1 to 63 lower-case letters, digits, inner dashes and underscores)", what, s)
	}
	return nil
}

// CheckHostname refuses what cannot be the name of a server or of a label: 1 to 253 letters, digits, inner dashes,
// underscores and dots. Names that differ in case differ.
func CheckHostname(what, s string) error {
	if len(s) > longestHostname || !hostname.MatchString(s) {
		return fault.New(fault.Invalid,
			"%s %q is not a host name (want 1 to 253 letters, digits, inner dashes, underscores and dots)", what, s)
	}
	return nil
}

// Handle returns the first part of an id by which a person names it: eight characters, and thirteen of a time-ordered
// id, since those that were made within a minute begin alike.
func Handle(id string) string {
	if len(id) > 14 && id[14] == '7' {
		return id[:13]
	}
	return Short(id)
}

// Short returns the first eight characters of an id, for tables.
func Short(id string) string { return fmt.Sprintf("%.8s", id) }

// leastPart is the length of the shortest part of an id that stands for the id: the part that tables show.
const leastPart = 8

// IsPart reports whether given equals whole, or is the start or the end of it when whole is an id.
func IsPart(given, whole string) bool {
	if given == whole {
		return true
	}
	given = strings.ToLower(strings.TrimPrefix(given, "…"))
	return IsUUID(whole) && CanBePart(given) && (strings.HasPrefix(whole, given) || strings.HasSuffix(whole, given))
}

// CanBePart reports whether what is given can be an id, or the start or the end of one.
func CanBePart(given string) bool {
	given = strings.ToLower(strings.TrimPrefix(given, "…"))
	return len(given) >= leastPart && strings.Trim(given, "0123456789abcdef-") == ""
}
