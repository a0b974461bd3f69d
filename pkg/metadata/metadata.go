// Package metadata merges the values that configure an agent, and digests them. It is pure.
//
// Guarantees:
//
//  1. Merge lets a later layer win, key by key at every level of nested values, and changes none of them.
//  2. Two maps have the same digest exactly when they hold the same; an empty one has none.
//  3. What Check lets pass can be written into a template as .metadata.NAME, and fits,
//     merged or not, into a fact and a document.
//  4. A secret value is sealed (package secret) in every layer; merging and digesting treat it as any other.
//  5. A value is text, or JSON: a number, a bool, null, an array or an object. JSON has one encoding, behind a mark
//     that no text has, so that facts, documents and digests hold it as they hold text.
package metadata

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/secret"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// The limits of one layer, and of all layers merged.
const (
	MaxValues = 256
	MaxValue  = 4 << 10
	MaxBytes  = 32 << 10 // of all keys and values
)

// name is what a template can say behind a dot.
var name = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,62}$`)

// Digest returns the sha256 of each key, sorted, and its value, each followed by a zero
// byte; nil for empty metadata.
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
		return refuse(
			"%.80q is not the name of a value (want a letter, and then up to 62 letters, digits and underscores)", k)
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
		if err := checkValue(k, m[k]); err != nil {
			return err
		}
		total += len(k) + len(m[k])
	}
	if total > MaxBytes {
		return refuse("all values together have %d bytes; %d are the most", total, MaxBytes)
	}
	return nil
}

func checkValue(k, v string) error {
	most := MaxValue
	switch {
	case IsNested(v):
		return checkNested(k, v)
	case secret.IsSealed(v):
		most = secret.SealedBytes(MaxValue)
	}
	if len(v) > most {
		return refuse("value %q: want text of at most %d bytes; it has more", k, most)
	}
	if bad := notText(v); bad != "" {
		return refuse("value %q: want text; it has %s", k, bad)
	}
	return nil
}

// CheckSealed refuses sealed values that do not open under their names; a nil key opens none.
func CheckSealed(key *secret.Key, m map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !secret.IsSealed(m[k]) {
			continue
		}
		if key == nil {
			return refuse("%q is sealed, and the registry has no key of secrets", k)
		}
		if _, err := key.Open(k, m[k]); err != nil {
			return refuse("%v", err)
		}
	}
	return nil
}

// CheckKeptSecret refuses layers where a later one has a value in clear that is a secret of an earlier one: it was
// most likely meant to be a secret too, and the ledger never forgets.
func CheckKeptSecret(layers ...map[string]string) error {
	for n, layer := range layers {
		for _, k := range slices.Sorted(maps.Keys(layer)) {
			if secret.IsSealed(layer[k]) && slices.ContainsFunc(layers[n+1:], hasInClear(k)) {
				return fault.Refusef(fault.Invalid, code.SecretInClear,
					"%q is a secret, and would be set in clear", k).
					Try("--set-secret " + k + "=@FILE")
			}
		}
	}
	return nil
}

func hasInClear(k string) func(map[string]string) bool {
	return func(layer map[string]string) bool {
		v, ok := layer[k]
		return ok && !secret.IsSealed(v)
	}
}

// Open returns the secrets of m in clear; nil when it has none. An error names the first that does not open.
func Open(key *secret.Key, m map[string]string) (map[string]string, error) {
	var out map[string]string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !secret.IsSealed(m[k]) {
			continue
		}
		if key == nil {
			return out, fault.New(fault.Denied, "there is no key of secrets to open %q", k)
		}
		v, err := key.Open(k, m[k])
		if err != nil {
			return out, err
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = v
	}
	return out, nil
}

// text reports whether a value is text; a certificate has lines.
func text(v string) bool { return notText(v) == "" }

// notText returns what of a value is not text; "" when it is.
func notText(v string) string {
	if !utf8.ValidString(v) {
		return "bytes that are not UTF-8"
	}
	for n, c := range v {
		if !unicode.IsPrint(c) && c != '\n' && c != '\t' {
			return fmt.Sprintf("the control character %U at byte %d", c, n)
		}
	}
	return ""
}

func refuse(format string, args ...any) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: code.BadMetadata, Message: fmt.Sprintf(format, args...)})
}
