package version

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The bounds of a range.
const (
	maxRange       = 256
	maxComparisons = 16
)

// Range is a set of versions in the order of Key, such as ">=1.5.0 <2.0.0 || 2.1.0". A pre-release comes before its
// release, so "<2.0.0" has 2.0.0-rc.1. The zero Range has every version.
type Range struct {
	alternatives [][]comparison
}

// comparison is one bound of a range.
type comparison struct {
	operator string
	bound    Key
	text     string // the bound as it is written
}

var operators = map[string]func(int) bool{
	"=":  func(c int) bool { return c == 0 },
	">":  func(c int) bool { return c > 0 },
	">=": func(c int) bool { return c >= 0 },
	"<":  func(c int) bool { return c < 0 },
	"<=": func(c int) bool { return c <= 0 },
}

// compared is a comparison: an operator, or none for "=", and a version.
var compared = regexp.MustCompile(`^(>=|<=|>|<|=)?([A-Za-z0-9][A-Za-z0-9._+~:^-]*)$`)

// wildcard matches a part of a version that stands for any number in other systems. In a Key it would be a text, and
// 1.x the one version 1.x.
var wildcard = regexp.MustCompile(`(^|\.)[xX*](\.|$)`)

// spaced joins an operator with the version behind it.
var spaced = regexp.MustCompile(`(>=|<=|>|<|=)\s+`)

// ParseRange parses a range: comparisons separated by spaces or commas, which all hold, and || between alternatives.
func ParseRange(text string) (Range, error) {
	if len(text) > maxRange {
		return Range{}, fmt.Errorf("a range of versions has %d bytes; %d are the most", len(text), maxRange)
	}
	var r Range
	n := 0
	for part := range strings.SplitSeq(text, "||") {
		words := strings.Fields(strings.ReplaceAll(spaced.ReplaceAllString(part, "$1"), ",", " "))
		var all []comparison
		for _, word := range words {
			m := compared.FindStringSubmatch(word)
			if m == nil || !strings.ContainsAny(m[2], "0123456789") {
				return Range{}, fmt.Errorf(
					"%q is not a range of versions (want comparisons such as >=1.5.0 <2.0.0)", text)
			}
			if wildcard.MatchString(m[2]) {
				return Range{}, fmt.Errorf("%q has the wildcard %s; name the bounds instead, such as >=1.0.0 <2.0.0",
					text, m[2])
			}
			if m[1] == "" {
				m[1] = "="
			}
			all = append(all, comparison{m[1], KeyOf(m[2]), m[2]})
		}
		if n += len(all); len(all) == 0 || n > maxComparisons {
			return Range{}, fmt.Errorf("%q is not a range of versions: each alternative has a comparison, and all "+
				"have %d at most", text, maxComparisons)
		}
		r.alternatives = append(r.alternatives, all)
	}
	return r, nil
}

// Has reports whether a range has a version.
func (r Range) Has(version string) bool {
	k := KeyOf(version)
	return r.has(func(c comparison) int { return k.Compare(c.bound) })
}

// HasBy reports whether a range has a version in another order. compare compares that version with a bound.
func (r Range) HasBy(compare func(bound string) int) bool {
	return r.has(func(c comparison) int { return compare(c.text) })
}

func (r Range) has(compare func(comparison) int) bool {
	return len(r.alternatives) == 0 || slices.ContainsFunc(r.alternatives, func(all []comparison) bool {
		return !slices.ContainsFunc(all, func(c comparison) bool { return !operators[c.operator](compare(c)) })
	})
}

// In reports whether one of several ranges has a version; no range has every version, and one that cannot be parsed
// has none.
func In(version string, ranges []string) bool {
	return len(ranges) == 0 || slices.ContainsFunc(ranges, func(text string) bool {
		r, err := ParseRange(text)
		return err == nil && r.Has(version)
	})
}
