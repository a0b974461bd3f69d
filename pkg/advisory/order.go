package advisory

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/garrison-fleet/garrison/pkg/version"
)

// orders are the orders of versions that are known, by ecosystem.
var orders = map[string]func(a, b string) (c int, sure bool){
	"Go": compareSemantic, "npm": compareSemantic, "crates.io": compareSemantic, "Pub": compareSemantic,
	"Hex": compareSemantic, "PyPI": comparePython,
	"Debian": compareDebian, "Ubuntu": compareDebian, "deb": compareDebian,
	"Red Hat": compareRPM, "Rocky Linux": compareRPM, "AlmaLinux": compareRPM, "SUSE": compareRPM,
	"openSUSE": compareRPM, "Oracle": compareRPM, "Fedora": compareRPM, "CentOS": compareRPM, "rpm": compareRPM,
}

// Compare compares two versions of an ecosystem. Without a known order, or where one does not follow it, they are
// compared number by number, and sure is false unless both are numbers and dots alone.
func Compare(ecosystem, a, b string) (c int, sure bool) {
	if a == b {
		return 0, true
	}
	if order := orders[ecosystem]; order != nil {
		return order(a, b)
	}
	return comparePlain(a, b)
}

// comparePlain compares versions that follow no known order.
func comparePlain(a, b string) (c int, sure bool) {
	return version.Compare(a, b), strings.Trim(a+b, "0123456789.") == ""
}

func compareSemantic(a, b string) (int, bool) {
	x, errX := semver.NewVersion(a)
	y, errY := semver.NewVersion(b)
	if errX != nil || errY != nil {
		return comparePlain(a, b)
	}
	return x.Compare(y), true
}

// compareDebian compares EPOCH:UPSTREAM-REVISION as dpkg does: see deb-version(7).
func compareDebian(a, b string) (int, bool) {
	epochA, restA := epochOf(a)
	epochB, restB := epochOf(b)
	upA, revA := cutLast(restA)
	upB, revB := cutLast(restB)
	return cmp.Or(compareNumber(epochA, epochB), debianPart(upA, upB), debianPart(revA, revB)), true
}

// epochOf splits the number before a colon off a version; 0 without one.
func epochOf(v string) (epoch, rest string) {
	if epoch, rest, ok := strings.Cut(v, ":"); ok && strings.Trim(epoch, "0123456789") == "" {
		return epoch, rest
	}
	return "0", v
}

// cutLast splits a version at its last dash.
func cutLast(v string) (before, after string) {
	if at := strings.LastIndexByte(v, '-'); at >= 0 {
		return v[:at], v[at+1:]
	}
	return v, ""
}

// debianPart compares texts and numbers in turn.
func debianPart(a, b string) int {
	for a != "" || b != "" {
		textA, textB := leading(a, false), leading(b, false)
		if c := debianText(a[:textA], b[:textB]); c != 0 {
			return c
		}
		a, b = a[textA:], b[textB:]
		numA, numB := leading(a, true), leading(b, true)
		if c := compareNumber(a[:numA], b[:numB]); c != 0 {
			return c
		}
		a, b = a[numA:], b[numB:]
	}
	return 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// leading returns how many bytes at the start are digits, or are none.
func leading(s string, digits bool) int {
	n := 0
	for n < len(s) && isDigit(s[n]) == digits {
		n++
	}
	return n
}

// debianText compares texts in which ~ comes before the end, and letters before anything else.
func debianText(a, b string) int {
	rank := func(s string, i int) int {
		switch {
		case i >= len(s):
			return 0
		case s[i] == '~':
			return -1
		case isLetter(s[i]):
			return int(s[i])
		}
		return int(s[i]) + 256
	}
	for i := range max(len(a), len(b)) {
		if c := cmp.Compare(rank(a, i), rank(b, i)); c != 0 {
			return c
		}
	}
	return 0
}

// compareNumber compares decimal numbers of any length; an empty one is 0.
func compareNumber(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// compareRPM compares EPOCH:VERSION-RELEASE as rpm does. A missing release equals any.
func compareRPM(a, b string) (int, bool) {
	epochA, restA := epochOf(a)
	epochB, restB := epochOf(b)
	verA, relA := cutLast(restA)
	verB, relB := cutLast(restB)
	c := cmp.Or(compareNumber(epochA, epochB), rpmPart(verA, verB))
	if c == 0 && relA != "" && relB != "" {
		c = rpmPart(relA, relB)
	}
	return c, true
}

// rpmPart compares versions segment by segment, as what stands next in each is ordered.
func rpmPart(a, b string) int {
	separator := func(r rune) bool {
		return r >= 128 || !isDigit(byte(r)) && !isLetter(byte(r)) && r != '~' && r != '^'
	}
	for {
		a, b = strings.TrimLeftFunc(a, separator), strings.TrimLeftFunc(b, separator)
		next := rpmNext(a)
		if c := cmp.Compare(next, rpmNext(b)); c != 0 || next == rpmEnd {
			return c
		}
		segA, segB := a[:1], b[:1] // a mark
		if next >= rpmLetters {
			segA, segB = segment(a), segment(b)
		}
		if c := rpmSegment(segA, segB, next == rpmDigits); c != 0 {
			return c
		}
		a, b = a[len(segA):], b[len(segB):]
	}
}

// What may stand next in a version of rpm, the lowest first.
const (
	rpmTilde = iota
	rpmEnd
	rpmCaret
	rpmLetters
	rpmDigits
)

func rpmNext(s string) int {
	switch {
	case s == "":
		return rpmEnd
	case s[0] == '~':
		return rpmTilde
	case s[0] == '^':
		return rpmCaret
	case isDigit(s[0]):
		return rpmDigits
	}
	return rpmLetters
}

// segment returns the digits or the letters at the start.
func segment(s string) string {
	kind := isLetter
	if isDigit(s[0]) {
		kind = isDigit
	}
	n := 1
	for n < len(s) && kind(s[n]) {
		n++
	}
	return s[:n]
}

func rpmSegment(a, b string, numbers bool) int {
	if numbers {
		return compareNumber(a, b)
	}
	return cmp.Compare(a, b)
}

// python is a version of PEP 440, without its local part.
var python = regexp.MustCompile(`^v?(?:([0-9]+)!)?([0-9]+(?:\.[0-9]+)*)` +
	`(?:[-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?([0-9]*))?` +
	`(?:-([0-9]+)|[-_.]?(post|rev|r)[-_.]?([0-9]*))?(?:[-_.]?(dev)[-_.]?([0-9]*))?(?:\+.*)?$`)

// comparePython compares versions as PEP 440 does, without their local parts.
func comparePython(a, b string) (int, bool) {
	x := python.FindStringSubmatch(strings.ToLower(a))
	y := python.FindStringSubmatch(strings.ToLower(b))
	if x == nil || y == nil {
		return version.Compare(a, b), false
	}
	c := cmp.Or(compareNumber(x[1], y[1]), compareNumbers(x[2], y[2]))
	kx, ky := pythonKey(x), pythonKey(y)
	for i := 0; i < len(kx) && c == 0; i++ {
		c = compareNumber(kx[i], ky[i])
	}
	return c, true
}

// compareNumbers compares numbers between dots; missing ones are 0.
func compareNumbers(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if c := compareNumber(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// pythonKey returns what comes after the release numbers, as numbers: the phase and its number, then the number of the
// post-release and of the development release, each one higher than it is written.
func pythonKey(m []string) [4]string {
	phase, post := map[string]string{"a": "1", "alpha": "1", "b": "2", "beta": "2", "": "4"}[m[3]], "0"
	isPost, isDev := m[5] != "" || m[6] != "", m[8] != ""
	if m[3] != "" && phase == "" {
		phase = "3"
	}
	if m[3] == "" && isDev && !isPost {
		phase = "0" // 1.0.dev1 comes before 1.0a1
	}
	if isPost {
		post = next(m[5] + m[7])
	}
	dev := "1" + strings.Repeat("0", 20) // no development release comes last
	if isDev {
		dev = next(m[9])
	}
	return [4]string{phase, m[4], post, dev}
}

func next(number string) string {
	n, _ := strconv.ParseUint(number, 10, 63) // a longer one is the highest
	return strconv.FormatUint(n+1, 10)
}
