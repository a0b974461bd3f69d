// Package nearest finds the name that somebody probably meant.
//
// Guarantee: the same names in any order give the same answer.
package nearest

import "iter"

// Name gives the name among names that is nearest to want, or nothing when none is near:
// at most a third of the longer one's characters, and at least one, may differ.
func Name(want string, names iter.Seq[string]) string {
	best, least := "", len(want)+1
	for n := range names {
		limit := max(1, max(len(n), len(want))/3)
		if gap := len(n) - len(want); gap > limit || -gap > limit {
			continue // cannot be near: spares the table below
		}
		d := distance(want, n)
		if d <= limit && (d < least || d == least && n < best) {
			best, least = n, d
		}
	}
	return best
}

// distance is Levenshtein's: how many characters must be put in, left out or replaced.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := diagonal
			if a[i-1] != b[j-1] {
				replace++
			}
			diagonal = row[j]
			row[j] = min(replace, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
