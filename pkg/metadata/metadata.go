// Package metadata merges the values that configure an agent, and digests them. It is pure.
//
// Guarantees:
//
//  1. Merge lets a later layer win, key by key, and changes none of them.
//  2. Two maps have the same digest exactly when they hold the same; an empty one has none.
//  3. What Check lets pass can be written into a template as .metadata.NAME, and fits,
//     merged or not, into a fact and a document.
package metadata

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/garrison-fleet/garrison/pkg/fault"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// CodeBad refuses metadata that cannot be taken.
const CodeBad = "BAD_METADATA"

// The limits of one layer, and of all layers merged.
const (
	MaxValues = 256
	MaxValue  = 4 << 10
	MaxBytes  = 32 << 10 // of all keys and values
)

// name is what a template can say behind a dot.
var name = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,62}$`)

// Merge gives all values of the layers; a later one wins. It gives nil when there are none.
func Merge(layers ...map[string]string) map[string]string {
	var out map[string]string
	for _, l := range layers {
		if out == nil && len(l) > 0 {
			out = make(map[string]string, len(l))
		}
		maps.Copy(out, l)
	}
	return out
}

// Digest gives the sha256 of each key, sorted, and its value, each followed by a zero
// byte; nil when there is none.
func Digest(m map[string]string) []byte {
	if len(m) == 0 {
		return nil
	}
	sum := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(m)) {
		sum.Write([]byte(k + "\x00" + m[k] + "\x00"))
	}
	return sum.Sum(nil)
}

// CheckName refuses what cannot be the name of a value.
func CheckName(k string) error {
	if !name.MatchString(k) {
		return refuse("%.80q is not the name of a value (want a letter, and then up to 62 letters, digits and underscores)", k)
	}
	return nil
}

// Check refuses values that are too many or too large, or that cannot be written into a template.
func Check(m map[string]string) error {
	if len(m) > MaxValues {
		return refuse("%d values; %d are the most", len(m), MaxValues)
	}
	total := 0
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if err := CheckName(k); err != nil {
			return err
		}
		if v := m[k]; len(v) > MaxValue || !text(v) {
			return refuse("value %q: want text of at most %d bytes; it has %d", k, MaxValue, len(v))
		}
		total += len(k) + len(m[k])
	}
	if total > MaxBytes {
		return refuse("all values together have %d bytes; %d are the most", total, MaxBytes)
	}
	return nil
}

// text says whether a value is text; a certificate has lines.
func text(v string) bool {
	for _, c := range v {
		if !unicode.IsPrint(c) && c != '\n' && c != '\t' {
			return false
		}
	}
	return utf8.ValidString(v)
}

func refuse(format string, args ...any) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: CodeBad, Message: fmt.Sprintf(format, args...)})
}
