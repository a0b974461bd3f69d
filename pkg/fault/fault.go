// Package fault holds the few kinds of error that a caller acts on.
//
// A caller decides by kind, never by text: the kind of a handler's error chooses between
// acknowledge, retry and dead letter (package bus), and between exit codes (the
// operator's CLI). An error without a kind is Internal.
//
// An error may carry a Refusal: a stable code of package code and the parts of the one
// line that a person reads. Refusals travel over the bus unchanged.
//
//	return fault.Refusef(fault.NotFound, code.UnknownAgent, "no agent %q", name).
//		Near(similar).Try("garrison agent list")
//
//	if fault.KindOf(err) == fault.Conflict { … }
package fault

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// Kind is what a caller can do about an error.
type Kind uint8

// The kinds. Their names go over the wire, so they never change.
const (
	Internal    Kind = iota // a defect or an unforeseen failure
	Invalid                 // the request is wrong; repeating it does not help
	NotFound                // what was named does not exist
	Conflict                // concurrent update; read and decide again
	Denied                  // not allowed
	Unavailable             // not now; a retry may work
)

var names = [...]string{"internal", "invalid", "not-found", "conflict", "denied", "unavailable"}

// String returns the kind's name on the wire.
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
	err     error // nil where there is a refusal
}

// New returns an error of a kind. The format may wrap with %w.
func New(kind Kind, format string, args ...any) error {
	return &Error{kind: kind, err: fmt.Errorf(format, args...)}
}

// Refuse returns an error that carries a refusal.
func Refuse(kind Kind, r *apiv1.Refusal) error {
	return &Error{kind: kind, refusal: r}
}

// Refusef returns an error that carries a refusal with a code and a message. Near, Try and
// From complete it.
func Refusef(kind Kind, code, format string, args ...any) *Error {
	return &Error{kind: kind, refusal: &apiv1.Refusal{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// Near sets the name that the caller probably meant, "" for none, and returns e.
func (e *Error) Near(name string) *Error { e.refusal.Nearest = name; return e }

// Try sets the command or change that helps, and returns e.
func (e *Error) Try(what string) *Error { e.refusal.Try = what; return e }

// After sets the least time to wait before the same request may succeed, and returns e.
func (e *Error) After(wait time.Duration) *Error {
	e.refusal.RetryAfterMs = uint32(wait.Milliseconds())
	return e
}

// From sets the component that refuses, and returns e.
func (e *Error) From(component string) *Error { e.refusal.Component = component; return e }

// Error returns the text, in one line.
func (e *Error) Error() string {
	if e.refusal != nil {
		return Line(e.refusal)
	}
	return e.err.Error()
}

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.err }

// KindOf returns the kind of the outermost error that has one.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.kind
	}
	return Internal
}

// Is reports whether err has the kind. A nil error has none.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }

// RefusalOf returns the refusal that err carries, or nil.
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

// Line returns a refusal as the one line that a person reads: component, code, what was
// wanted and searched, the nearest match, what to try.
func Line(r *apiv1.Refusal) string {
	s := head(r)
	if all := messages(r); len(all) > 1 {
		s += ": " + strings.Join(all, "; ")
	}
	if r.GetNearest() != "" {
		s += ". Nearest: " + r.GetNearest()
	}
	if r.GetTry() != "" {
		s += ". Try: " + r.GetTry()
	}
	return s
}

// Text returns a refusal as Line does, with each of several faults in a line of its own.
func Text(r *apiv1.Refusal) string {
	all := messages(r)
	if len(all) < 2 {
		return Line(r)
	}
	return head(r) + "\n  " + strings.Join(all, "\n  ")
}

func head(r *apiv1.Refusal) string {
	s := r.GetCode() + ": " + r.GetMessage()
	if r.GetComponent() != "" {
		s = r.GetComponent() + ": " + s
	}
	return s
}

// messages returns what is wrong with each field.
func messages(r *apiv1.Refusal) (out []string) {
	for _, f := range r.GetFaults() {
		out = append(out, f.GetCode()+": "+f.GetMessage())
	}
	return out
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.,:/@=+-]+$`)

// Quote returns a word quoted for a shell where that is necessary.
func Quote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Hint is a command that a person can paste. Its parts are quoted already.
type Hint string

// activeInShell are the characters with which a shell does more than pass a word on.
const activeInShell = "$`;|&<>(){}\\\"'*?!#~\n\r"

// Hintf formats a command that a person can paste: a text that a shell would act on is quoted, wherever it is from.
func Hintf(format string, args ...any) Hint {
	quoted := make([]any, len(args))
	for i, a := range args {
		quoted[i] = a
		if _, done := a.(Hint); done {
			continue
		}
		if s, isText := text(a); isText && strings.ContainsAny(s, activeInShell) {
			quoted[i] = Quote(s)
		}
	}
	return Hint(fmt.Sprintf(format, quoted...))
}

func text(a any) (string, bool) {
	switch a := a.(type) {
	case string:
		return a, true
	case error:
		return a.Error(), true
	case fmt.Stringer:
		return a.String(), true
	}
	return "", false
}

// beforeHint is what stands before a command in a message.
const beforeHint = "Try: "

// Messagef formats a message whose end, behind "Try: ", is a command that a person can paste, as Hintf.
func Messagef(format string, args ...any) string {
	at := strings.Index(format, beforeHint)
	if at < 0 {
		return fmt.Sprintf(format, args...)
	}
	at += len(beforeHint)
	const mark = "\x00" // no argument of a program has one
	whole := fmt.Sprintf(format[:at]+mark+format[at:], args...)
	message, _, _ := strings.Cut(whole, mark)
	hint := string(Hintf(format[:at]+mark+format[at:], args...))
	_, command, _ := strings.Cut(hint, mark)
	return message + command
}
