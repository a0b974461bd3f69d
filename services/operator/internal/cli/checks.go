package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

// check returns an error for a meaningless text.
type check func(text string) error

// Name returns a check of a name; what is the noun with its article.
func Name(what string) check { return func(s string) error { return ident.CheckName(what, s) } }

// ServerName checks the id, prefix or name of a server.
func ServerName(s string) error { return ident.CheckHostname("server", s) }

// ID returns a check of a whole id; what says of which noun.
func ID(what string) check { return func(s string) error { return ident.Check(what, s) } }

// IDPrefix returns a check of an id or the beginning of one, as tables print it; what is the noun with its article.
func IDPrefix(what string) check {
	return func(s string) error {
		if s == "" || len(s) > 36 || strings.Trim(s, "0123456789abcdef-") != "" {
			return fmt.Errorf("%q is not the id of %s, nor the beginning of one", s, what)
		}
		return nil
	}
}

// Digest checks a SHA-256 digest in hex.
func Digest(s string) error {
	if sum, err := hex.DecodeString(s); err != nil || len(sum) != sha256.Size {
		return fmt.Errorf("%q is not a digest of %d hex digits", s, 2*sha256.Size)
	}
	return nil
}

// NotEmpty returns a check that refuses an empty text: an unset variable of a script must not widen a request.
func NotEmpty(what string) check {
	return func(s string) error {
		if strings.TrimSpace(s) == "" {
			return fmt.Errorf("the %s must not be empty", what)
		}
		return nil
	}
}

// OneOf returns a check that accepts the values of all.
func OneOf(what string, all []string) check {
	return func(s string) error {
		if !slices.Contains(all, s) {
			return fmt.Errorf("%q is not a %s (want %s)", s, what, strings.Join(all, ", "))
		}
		return nil
	}
}

// OrEmpty also accepts the empty text, for flags that it clears.
func OrEmpty(c check) check {
	return func(s string) error {
		if s == "" {
			return nil
		}
		return c(s)
	}
}

// ReadCount parses a whole number from 0.
func ReadCount(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number from 0 to %d", text, ^uint32(0))
	}
	return uint32(n), nil
}

// ReadText returns a parser of texts that pass a check.
func ReadText(c check) func(string) (string, error) {
	return func(s string) (string, error) { return s, c(s) }
}

// AnyText accepts every text; the service checks it.
func AnyText(string) error { return nil }

// ParseLabel parses LABEL=VALUE.
func ParseLabel(word string) (k, v string, err error) {
	k, v, ok := strings.Cut(word, "=")
	if !ok || k == "" {
		return "", "", fmt.Errorf("%q is not LABEL=VALUE", word)
	}
	return k, v, nil
}
