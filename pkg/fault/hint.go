package fault

import (
	"fmt"
	"regexp"
	"strings"
)

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
