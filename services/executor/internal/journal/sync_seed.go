//go:build seed_nosyncjournal

package journal

// A bug on purpose, for make crash-seeds: updates are not waited for.
const noSync = true
