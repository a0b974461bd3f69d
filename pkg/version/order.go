package version

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Key is the place of an image's version in the order of versions. The zero Key comes first.
//
// Semantic versions have the order of semantic versions. Other versions are accepted as they are and have a place among
// them, so that the order is total:
//
//  1. The numbers at the start count first, as MAJOR.MINOR.PATCH with 0 for a missing one: 1.2 is beside 1.2.0. A
//     version that starts with no number, such as master-20160527T165825Z-g020d169, comes before all others.
//  2. Of the same numbers, a semantic pre-release comes first, then the release, and then what is no semantic version:
//     0.0.3vrelease-20130401-g0bd6d2c is a build of 0.0.3, so it comes after 0.0.3 and before 0.0.4.
//  3. Builds of the same numbers have the order of their time stamps, which is the last one in their text, such as
//     20130401 or 20130401T101112Z. A build without a stamp comes first.
//  4. Then the text behind the numbers decides, with numbers in it compared as numbers, then its bytes, and at last the
//     bytes of the whole: 1-rc_2 and 1.0-rc_2 differ.
//
// Compare of two keys is 0 for the same text, and for semantic versions that differ in build metadata only.
type Key struct {
	class  class
	core   [3]string // without leading zeros
	semver *semver.Version
	stamp  string
	text   string
	whole  string // empty for a semantic version
}

type class int

const (
	unnumbered class = iota
	semantic
	build
)

var (
	core  = regexp.MustCompile(`^v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?`)
	stamp = regexp.MustCompile(`[0-9]{8}(T[0-9]{6}Z)?`)
)

// KeyOf returns the place of a version.
func KeyOf(version string) Key {
	k := Key{text: version, whole: version}
	m := core.FindStringSubmatch(version)
	if m == nil {
		k.stamp = stampOf(version)
		return k
	}
	for i := range k.core {
		k.core[i] = strings.TrimLeft(m[i+1], "0")
	}
	if v, err := semver.StrictNewVersion(version); err == nil {
		k.class, k.semver, k.text, k.whole = semantic, v, "", ""
		return k
	}
	k.class, k.text, k.stamp = build, version[len(m[0]):], stampOf(version[len(m[0]):])
	if k.text == "" {
		k.text = version // 1.2 and v1.2.0 and 01.2.0 differ
	}
	return k
}

// stampOf returns the last time stamp of a text; digits next to other digits or letters are none.
func stampOf(text string) string {
	last := ""
	for _, at := range stamp.FindAllStringIndex(text, -1) {
		if (at[0] == 0 || !alphanumeric(text[at[0]-1])) && (at[1] == len(text) || !alphanumeric(text[at[1]])) {
			last = text[at[0]:at[1]]
		}
	}
	return last
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Compare returns -1 when k comes before other, 1 when it comes after it, and 0 otherwise.
func (k Key) Compare(other Key) int {
	if k.class == unnumbered || other.class == unnumbered {
		return cmp.Or(cmp.Compare(k.class, other.class), k.compareText(other))
	}
	for i := range k.core {
		if c := compareNumbers(k.core[i], other.core[i]); c != 0 {
			return c
		}
	}
	if k.semver != nil && other.semver != nil {
		return k.semver.Compare(other.semver)
	}
	return cmp.Or(cmp.Compare(k.class, other.class), k.compareText(other))
}

func (k Key) compareText(other Key) int {
	return cmp.Or(cmp.Compare(k.stamp, other.stamp), natural(k.text, other.text), cmp.Compare(k.text, other.text),
		cmp.Compare(k.whole, other.whole))
}

// Compare compares two versions of images as their keys.
func Compare(a, b string) int { return KeyOf(a).Compare(KeyOf(b)) }

// compareNumbers compares digits without leading zeros, of any length.
func compareNumbers(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// natural compares texts part by part: digits as a number, and before other characters.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == 0 || y == 0 {
			if a[0] != b[0] {
				return cmp.Compare(rank(a[0]), rank(b[0]))
			}
			a, b = a[1:], b[1:]
			continue
		}
		if c := compareNumbers(strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")); c != 0 {
			return c
		}
		a, b = a[x:], b[y:]
	}
	return cmp.Compare(len(a), len(b))
}

// rank puts digits before other bytes.
func rank(c byte) int {
	if c >= '0' && c <= '9' {
		return int(c) - 256
	}
	return int(c)
}

// digits returns how many digits a text starts with.
func digits(s string) int {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return i
		}
	}
	return len(s)
}
