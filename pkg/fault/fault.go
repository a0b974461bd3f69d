// Package fault holds the few kinds of error that somebody acts on.
//
// A caller decides by kind, never by text: a handler's kind chooses between
// acknowledging, retrying and quarantining (package bus), and between exit codes
// (the operator's CLI). An error without a kind is Internal.
//
// An error may carry a Refusal: a stable code and the parts of the one line that a
// person reads. Refusals travel over the bus unchanged.
//
//	return fault.Refuse(fault.NotFound, &apiv1.Refusal{Code: "NO_AGENT", ...})
//	if fault.KindOf(err) == fault.Conflict { … }
package fault

import (
	"errors"
	"fmt"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// Kind says what a caller can do about an error.
type Kind uint8

// The kinds. Their names go over the wire, so they never change.
const (
	Internal    Kind = iota // a defect or something nobody foresaw
	Invalid                 // asked wrongly; asking again does not help
	NotFound                // what was named is not there
	Conflict                // the world moved; look again and decide again
	Denied                  // not allowed
	Unavailable             // not now; later it may work
)

var names = [...]string{"internal", "invalid", "not-found", "conflict", "denied", "unavailable"}

// String gives the kind's name on the wire.
func (k Kind) String() string {
	if int(k) < len(names) {
		return names[k]
	}
	return names[Internal]
}

// ParseKind reads a name from the wire; an unknown one is Internal.
func ParseKind(s string) Kind {
	for i, n := range names {
		if n == s {
			return Kind(i)
		}
	}
	return Internal
}

// Error is an error with a kind and, sometimes, a refusal.
type Error struct {
	kind    Kind
	refusal *apiv1.Refusal
	err     error
}

// New makes an error of a kind. The format may wrap with %w.
func New(kind Kind, format string, args ...any) error {
	return &Error{kind: kind, err: fmt.Errorf(format, args...)}
}

// Refuse makes an error that carries a refusal.
func Refuse(kind Kind, r *apiv1.Refusal) error {
	return &Error{kind: kind, refusal: r, err: errors.New(Line(r))}
}

// Error gives the text, in one line.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.err }

// KindOf gives the kind of the outermost error that has one.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.kind
	}
	return Internal
}

// Is says whether err has the kind. A nil error has none.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }

// RefusalOf gives the refusal that err carries, or nil.
func RefusalOf(err error) *apiv1.Refusal {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return nil
		}
		if e.refusal != nil {
			return e.refusal
		}
		err = e.err
	}
	return nil
}

// Line writes a refusal as the one line that a person reads:
// component, code, what was wanted and searched, the nearest match, what to try.
func Line(r *apiv1.Refusal) string {
	s := r.GetCode() + ": " + r.GetMessage()
	if r.GetComponent() != "" {
		s = r.GetComponent() + ": " + s
	}
	if r.GetNearest() != "" {
		s += ". Nearest: " + r.GetNearest()
	}
	if r.GetTry() != "" {
		s += ". Try: " + r.GetTry()
	}
	return s
}
