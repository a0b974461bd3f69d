package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// check returns an error for a meaningless text.
type check func(text string) error

// Name returns a check of a name; what is the noun with its article.
func Name(what string) check { return func(s string) error { return ident.CheckName(what, s) } }

// ServerName checks the id, prefix or name of a server.
func ServerName(s string) error { return ident.CheckHostname("server", s) }

// ID returns a check of a whole id of the noun that what names.
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

// Code checks a code of a refusal or a trouble.
func Code(text string) error {
	if e, ok := code.Lookup(text); ok && e.Code == text {
		return nil
	} else if ok {
		return fmt.Errorf("there is no code %q. Nearest: %s", text, e.Code)
	}
	near := nearest.Name(strings.ToUpper(text), func(yield func(string) bool) {
		for _, e := range code.All() {
			if !yield(e.Code) {
				return
			}
		}
	})
	if near != "" {
		near = ". Nearest: " + near
	}
	return fmt.Errorf("there is no code %q%s", text, near)
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

// ReadLimit reads a number of servers, or a percentage of them.
func ReadLimit(word string) (*rolloutv1.Limit, error) {
	text, percent := strings.CutSuffix(word, "%")
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case err != nil || percent && n > 100:
		return nil, fmt.Errorf("%q is not a number of servers, or a percentage such as 10%%", word)
	case percent:
		return &rolloutv1.Limit{By: &rolloutv1.Limit_Percent{Percent: uint32(n)}}, nil
	}
	return &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: uint32(n)}}, nil
}

// CheckField refuses what cannot be a field of a server. Which ones there are, the registry knows.
func CheckField(text string) error {
	return ident.CheckHostname("field", strings.TrimPrefix(text, "label."))
}

// ReadKeep reads a keep budget such as 2/label.rack or 50%/env.
func ReadKeep(text string) (*rolloutv1.Keep, error) {
	n, field, _ := strings.Cut(text, "/")
	l, err := ReadLimit(n)
	if err != nil || CheckField(field) != nil {
		return nil, fmt.Errorf("%q: want N/FIELD, such as 2/label.rack or 50%%/env", text)
	}
	return &rolloutv1.Keep{Field: field, Working: l}, nil
}

// CheckPath refuses a path at which nothing is, with the nearest name in its directory and what to do. Any other fault
// of the path stays for the one that opens it.
func CheckPath(path, try string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	text := "no file or directory " + listing.Quote(path)
	entries, _ := os.ReadDir(filepath.Dir(path)) // without a directory nothing is near
	near := nearest.Name(filepath.Base(path), func(yield func(string) bool) {
		for _, e := range entries {
			if !yield(e.Name()) {
				return
			}
		}
	})
	if near != "" {
		text += ". Nearest: " + listing.Quote(filepath.Join(filepath.Dir(path), near))
	}
	return Usage("%s. Try: %s", text, fault.Hint(try))
}

// CheckFile refuses a path at which nothing is, or a directory; - is standard input.
func CheckFile(path, try string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return Usage("%s is a directory; name a file in it. Try: %s", listing.Quote(path), fault.Hint(try))
	}
	if path == "-" {
		return nil
	}
	return CheckPath(path, try)
}
