//go:build race

package bus

// modelHistories is smaller under the race detector, which makes a history ten times as slow. `make test` also runs
// the whole model without it.
const modelHistories = 1_000
