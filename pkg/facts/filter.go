package facts

import (
	"regexp"
	"strings"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// isKey matches the tokens of a key. No wildcard and no empty token does.
var isKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}(\.[A-Za-z0-9_-]{1,128}){0,3}$`)

// filterOf returns the subjects that a request means.
func filterOf(q *registryv1.ReadFactsRequest) (string, error) {
	noun, key, kind := ledger.Noun(q.GetNoun()), q.GetKey(), q.GetKind()
	switch {
	case noun != "" && !isNoun(noun):
		return "", refuse("there is no noun %.80q", noun)
	case kind != "" && noun == "":
		return "", refuse("the kind %.80q of which noun? Kinds of two nouns may have the same name", kind)
	case kind != "" && !isKind(noun, kind):
		return "", refuse("there is no fact %s %.80q", noun, kind)
	case key != "" && !isKey.MatchString(key):
		return "", refuse("%.80q is not a key: want letters, digits, dashes and underscores, with dots between", key)
	}
	if noun == "" && key == "" {
		return everything, nil
	}
	subject := ledger.Prefix + orAny(string(noun))
	if key != "" {
		subject += "." + key
	}
	if kind == "" {
		return subject + ".>", nil
	}
	have := 0
	if key != "" {
		have = 1 + strings.Count(key, ".")
	}
	return subject + strings.Repeat(".*", max(0, tokens(noun)-have)) + "." + kind, nil
}

// tokens returns how many tokens the keys of a noun have.
func tokens(n ledger.Noun) int {
	if n == ledger.Instance {
		return 2
	}
	return 1
}

func orAny(token string) string {
	if token == "" {
		return "*"
	}
	return token
}

func isNoun(n ledger.Noun) bool {
	for _, k := range ledger.Kinds {
		if k.Noun == n {
			return true
		}
	}
	return false
}

func isKind(n ledger.Noun, name string) bool {
	for _, k := range ledger.Kinds {
		if k.Noun == n && k.Name == name {
			return true
		}
	}
	return false
}

// isFacts reports whether a header belongs to a fact, not to the bus.
func isFacts(name string) bool {
	return strings.HasPrefix(name, "ce-") || strings.HasPrefix(name, "Garrison-") || name == ledger.HeaderTrace
}

func refuse(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.Invalid, format, args...)
}
