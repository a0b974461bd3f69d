//go:build !race

package bus

// modelHistories is how many histories of the writer are tried, in fake time.
const modelHistories = 100_000
