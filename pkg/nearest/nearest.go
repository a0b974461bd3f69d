// Package nearest finds the known name that a mistyped one most likely means.
//
// Guarantees:
//
//  1. The same names in any order have the same result: of two equally near names the one
//     with the longer common beginning is returned, and of those the first in byte order.
//  2. A result differs from the wanted name in at most a third of the longer name's bytes,
//     rounded down, but one edit is always allowed.
package nearest

import "iter"

// Name returns the name that is nearest to want, or "" when none is near enough.
func Name(want string, names iter.Seq[string]) string {
	best, least := "", len(want)+1
	for n := range names {
		limit := max(1, max(len(n), len(want))/3)
		if gap := len(n) - len(want); gap > limit || -gap > limit {
			continue // the lengths alone rule it out
		}
		d := distance(want, n)
		if d <= limit && (d < least || d == least && better(want, n, best)) {
			best, least = n, d
		}
	}
	return best
}

// better reports whether a name comes before another one that is as near: people mistype the end of a word sooner than
// its beginning.
func better(want, name, than string) bool {
	if a, b := common(want, name), common(want, than); a != b {
		return a > b
	}
	return name < than
}

// common returns how many bytes two names begin with alike.
func common(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// distance returns how many edits turn a into b: inserted, deleted and replaced bytes, and
// swapped neighbors (optimal string alignment).
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
