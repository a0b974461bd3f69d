package watch

import (
	"slices"

	"github.com/garrison-fleet/garrison/services/operator/internal/display"
)

func endRows(p display.Progress) []display.Task {
	if len(p.GetTasks()) > 0 {
		return lastTries(slices.Clone(p.GetTasks()))
	}
	return p.GetFailures()
}

// lastTries returns the last attempt for each server and agent.
func lastTries(tasks []display.Task) []display.Task {
	last := map[[2]string]display.Task{}
	for _, t := range tasks {
		key := [2]string{t.GetServerId(), t.GetAgent()}
		if have := last[key]; have == nil || later(t, have) {
			last[key] = t
		}
	}
	return slices.DeleteFunc(tasks,
		func(t display.Task) bool { return last[[2]string{t.GetServerId(), t.GetAgent()}] != t })
}

func later(a, b display.Task) bool {
	if a.GetGeneration() != b.GetGeneration() {
		return a.GetGeneration() > b.GetGeneration()
	}
	return a.GetAttempt() > b.GetAttempt()
}
