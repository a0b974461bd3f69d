//go:build seed_trusttrial

package engine

import "github.com/garrison-fleet/garrison/services/executor/internal/journal"

// A bug on purpose, for make crash-seeds: a trial of which nothing bad is known is taken for a good one.
func proven(*journal.Change) bool { return true }
