package operator

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A plan costs the registry a look at every selected server.
func TestAChangeIsPlannedOnceOrTwice(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][2]int{ // of intents, of rollouts
		"up beacon@2.0.0 --on all --yes --detach":             {1, 0},
		"up many@2.0.0 --on all --yes --detach":               {1, 1},
		"up many@2.0.0 --on all --dry-run":                    {1, 1},
		"up beacon@2.0.0 --on all --batch 50% --yes --detach": {0, 1},
		"up beacon@2.0.0 --on all --batch 1 --yes --detach":   {0, 2},
		"configure many --on all --yes --detach":              {1, 1},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			r, dir := startRunner(t), annsDirectory(t)
			_, _, said := r.execute(t, dir, line)
			if got := [2]int{r.asked["PlanIntent"], r.asked["PlanRollout"]}; got != want {
				t.Errorf("have %v plans of intents and of rollouts, want %v; it said:\n%s", got, want, said)
			}
		})
	}
}

func TestAnUndoWithoutAnIDPlansTheLastChangeAlone(t *testing.T) {
	t.Parallel()
	r, dir := startRunner(t), annsDirectory(t)
	for range 3 {
		r.execute(t, dir, "up gone@2.0.0 --on all --yes --detach")
	}
	clear(r.asked)
	_, _, said := r.execute(t, dir, "undo --yes --detach")
	if n := r.asked["PlanIntent"]; n != 1 {
		t.Errorf("%d plans were made of the last change, want 1; it said:\n%s", n, said)
	}
}

// A script need not know how many servers a change reaches.
func TestTheJSONOfAChangeHasOneShape(t *testing.T) {
	t.Parallel()
	r, dir := startRunner(t), annsDirectory(t)
	for _, flags := range []string{"--dry-run", "--yes --detach"} {
		few := keysOf(t, r, dir, "up beacon@2.0.0 --on all -o json "+flags)
		many := keysOf(t, r, dir, "up many@2.0.0 --on all -o json "+flags)
		if !slices.Equal(few, many) {
			t.Errorf("%s: the keys are %v for few servers and %v for many", flags, few, many)
		}
	}
}

// keysOf returns the keys of the document that a command prints.
func keysOf(t *testing.T, r *runner, dir, line string) []string {
	t.Helper()
	_, data, said := r.execute(t, dir, line)
	var document map[string]json.RawMessage
	if err := json.Unmarshal([]byte(data), &document); err != nil {
		t.Fatalf("%s printed no document: %v\n%s", line, err, said)
	}
	return slices.Sorted(maps.Keys(document))
}

// annsDirectory returns a directory with the context file of an operator.
func annsDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ctx.json"), []byte(anns), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
