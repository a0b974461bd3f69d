package registry

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// invalid refuses what was asked wrongly.
func invalid(code, message string) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: code, Message: message})
}

// notFound refuses with what a core said about something that is not there.
func notFound(r *apiv1.Refusal) error { return fault.Refuse(fault.NotFound, r) }

// exists refuses to create what is there.
func exists(noun, name, try string) error {
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{Code: "EXISTS", Message: fmt.Sprintf("%s %q exists", noun, name), Try: try})
}

// inUse refuses to delete what something hangs on.
func inUse(noun, name string, n int, what, try string) error {
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{Code: "IN_USE", Message: fmt.Sprintf("%s %q has %d %s", noun, name, n, what), Try: try})
}

// badName refuses what cannot be a name.
func badName(err error) error { return invalid("BAD_NAME", err.Error()) }

// The limits of what people write.
const (
	maxLabels      = 64
	maxLabelValue  = 255
	maxDescription = 1000
)

// checkLabels refuses labels that could not be written into a selector or a variable.
func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return invalid("BAD_LABEL", fmt.Sprintf("%d labels; %d are the most", len(labels), maxLabels))
	}
	for k, v := range labels {
		if err := ident.CheckHostname("label", k); err != nil || len(k) > 63 {
			return invalid("BAD_LABEL", fmt.Sprintf("label %q: want 1 to 63 lower-case letters, digits, inner dashes and dots", k))
		}
		if !printable(v, maxLabelValue) {
			return invalid("BAD_LABEL", fmt.Sprintf("label %q: its value must be printable and have %d bytes at most", k, maxLabelValue))
		}
	}
	return nil
}

func checkDescription(s string) error {
	if !printable(s, maxDescription) {
		return invalid("BAD_DESCRIPTION", fmt.Sprintf("a description must be printable and have %d bytes at most", maxDescription))
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

// find gives the server that a caller means. It must run inside Read.
func (r *Registry) find(reference string) (*serverv1.Server, error) {
	if reference == "" {
		return nil, invalid("NO_SERVER", "no server is named")
	}
	s, refusal := selector.Find(r.view, reference)
	if refusal == nil {
		return s, nil
	}
	if refusal.Code == "AMBIGUOUS_SERVER" {
		return nil, fault.Refuse(fault.Conflict, refusal)
	}
	return nil, notFound(refusal)
}

// checkEnvironment refuses an environment that is not there; empty is none. It must run inside Read.
func (r *Registry) checkEnvironment(name string) error {
	if name == "" || r.view.EnvironmentExists(name) {
		return nil
	}
	return notFound(selector.UnknownEnvironment(r.view, name))
}
