package registry

import (
	"unicode"
	"unicode/utf8"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// invalid refuses a request with a wrong field.
func invalid(code, format string, args ...any) *fault.Error {
	return fault.Refusef(fault.Invalid, code, format, args...)
}

// notFound returns a refusal of a decision that something does not exist as an error.
func notFound(r *apiv1.Refusal) error { return fault.Refuse(fault.NotFound, r) }

// badName refuses a malformed name.
func badName(err error) error { return invalid(code.BadName, "%v", err) }

// The limits of what operators write.
const (
	maxLabels      = 64
	maxLabelValue  = 255
	maxDescription = 1000
)

// checkLabels refuses labels that a selector or a variable cannot name.
func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return invalid(code.BadLabel, "%d labels; %d are the most", len(labels), maxLabels)
	}
	for k, v := range labels {
		if err := ident.CheckHostname("label", k); err != nil || len(k) > 63 {
			return invalid(code.BadLabel,
				"label %q: want 1 to 63 letters, digits, inner dashes, underscores and dots", k)
		}
		if !printable(v, maxLabelValue) {
			return invalid(code.BadLabel,
				"label %q: its value must be printable and have %d bytes at most", k, maxLabelValue)
		}
	}
	return nil
}

func checkDescription(s string) error {
	if !printable(s, maxDescription) {
		return invalid(code.BadDescription,
			"a description must be printable and have %d bytes at most", maxDescription)
	}
	return nil
}

func printable(s string, longest int) bool {
	if len(s) > longest || !utf8.ValidString(s) {
		return false
	}
	for _, c := range s {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}
