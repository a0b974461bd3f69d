package server

import (
	"strings"
	"time"
	"unicode"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// What one server can make a condition hold, and how often it can change it.
const (
	conditionEvery = time.Minute
	maxCode        = 64
	maxReason      = 256
)

// Condition returns the fact by which what a server's executor says of itself changes, or nil. A change waits for a
// minute after the one before. What an executor says of the document's history is settled by Settle.
func Condition(s *serverv1.Server, heard Heard, now time.Time) *serverv1.ConditionChanged {
	if !Managed(s) || heard.At.IsZero() || heard.State == serverv1.ExecutorState_EXECUTOR_STATE_UNSPECIFIED {
		return nil
	}
	next := &serverv1.ConditionChanged{State: heard.State, Code: codeText(heard.Code), Reason: reasonText(heard.Reason)}
	if heard.Code == CodeLedgerBehind || heard.Code == CodePlaceUnproven {
		next = &serverv1.ConditionChanged{State: serverv1.ExecutorState_EXECUTOR_STATE_RUNNING}
	}
	have := s.GetCondition()
	if have == nil && next.State == serverv1.ExecutorState_EXECUTOR_STATE_RUNNING && next.Code == "" {
		return nil // it is well, as is believed of all of whom nothing is known
	}
	if have.GetState() == next.State && have.GetCode() == next.Code {
		return nil // a reason that varies is no other condition
	}
	if ago := now.Sub(have.GetSince().AsTime()); have != nil && ago >= 0 && ago < conditionEvery {
		return nil
	}
	return next
}

// codeText returns a code as it may be recorded: capitals, digits and underscores.
func codeText(code string) string {
	return clip(strings.Map(func(c rune) rune {
		if c == '_' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, code), maxCode)
}

// reasonText returns a sentence as it may be recorded: on one line.
func reasonText(reason string) string {
	return clip(strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, strings.ToValidUTF8(reason, "")), maxReason)
}
