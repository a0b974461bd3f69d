package lineage

import (
	"testing"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
)

// doc returns a document whose lineage ends with its own generation; the mark of a generation is ten times it.
func doc(epoch, generation uint64, before ...uint64) *desiredv1.Document {
	d := &desiredv1.Document{Epoch: epoch, Generation: generation}
	for _, g := range append(before, generation) {
		d.LineageGenerations, d.LineageMarks = append(d.LineageGenerations, g), append(d.LineageMarks, 10*g)
	}
	return d
}

func confirmed(d *desiredv1.Document, generation, mark uint64) *desiredv1.Document {
	d.ConfirmedGeneration, d.ConfirmedMark = generation, mark
	return d
}

func TestADocumentIsTakenWhenItContinuesWhatWasApplied(t *testing.T) {
	bare := &desiredv1.Document{Generation: 9}
	for name, c := range map[string]struct {
		have Position
		d    *desiredv1.Document
		want Relation
	}{
		"the first one":                           {Position{}, doc(1, 5), Next},
		"the first one, in a later epoch":         {Position{}, doc(3, 5), Next},
		"the same one":                            {Position{1, 5, 50}, doc(1, 5, 3), Same},
		"the same one of a time without epochs":   {Position{0, 5, 0}, doc(1, 5, 3), Same},
		"another one of the same generation":      {Position{1, 5, 51}, doc(1, 5, 3), Behind},
		"an older one":                            {Position{1, 5, 50}, doc(1, 4, 3), Behind},
		"a later one of the same history":         {Position{1, 3, 30}, doc(1, 5, 2, 3), Next},
		"a later one, and another fact was there": {Position{1, 3, 31}, doc(1, 5, 2, 3), Behind},
		"a later one that knows of no such place": {Position{1, 4, 40}, doc(1, 5, 2, 3), Behind},
		"a later one that does not reach back":    {Position{1, 3, 30}, doc(1, 90, 80, 85), Unproven},
		"one that was confirmed":                  {Position{1, 3, 30}, confirmed(doc(1, 90, 80, 85), 3, 30), Next},
		"one of another history, confirmed":       {Position{1, 3, 31}, confirmed(doc(1, 90, 80, 85), 3, 30), Behind},
		"an older one of a higher epoch":          {Position{1, 9, 90}, doc(2, 4), Next},
		"a later one of a lower epoch":            {Position{2, 4, 40}, doc(1, 9, 4), Behind},
		"a later one without a lineage":           {Position{1, 4, 40}, bare, Next},
		"a later one, to a server without marks":  {Position{0, 4, 0}, doc(1, 9, 8), Next},
		"the last generation there is":            {Position{1, 4, 40}, doc(1, 1<<64-1, 4), Impossible},
		"the same, as the first one":              {Position{}, doc(1, 1<<64-1), Impossible},
		"the same, in a new epoch":                {Position{1, 4, 40}, doc(2, 1<<64-1), Impossible},
		"one a trillion facts later":              {Position{1, 4, 40}, doc(1, 4+maxFacts+1, 4), Impossible},
		"one many facts later":                    {Position{1, 4, 40}, doc(1, 4+maxFacts, 4), Next},
		"the last epoch there is":                 {Position{1, 4, 40}, doc(1<<64-1, 5), Impossible},
		"the same epoch, in the first one":        {Position{}, doc(1<<64-1, 5), Impossible},
		"one of many epochs later":                {Position{1, 4, 40}, doc(2+maxLosses, 5), Impossible},
		"one of some epochs later":                {Position{1, 4, 40}, doc(1+maxLosses, 5), Next},
		"a true one, to a server that took a forged one": {
			Position{1, 1<<64 - 1, 0}, doc(2, 5), Next,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Compare(c.have, c.d); got != c.want {
				t.Errorf("relation %d, want %d", got, c.want)
			}
		})
	}
}

func TestAnOlderCopyThatIsReadOnceSaysNothing(t *testing.T) {
	start := time.Unix(1000, 0)
	var p Patience
	for _, step := range []struct {
		v     Relation
		after time.Duration
		want  bool
	}{
		{Behind, 0, false}, {Same, time.Second, false}, {Behind, 2 * time.Second, false},
		{Behind, 3 * time.Second, false},
		{Behind, 4 * time.Second, true}, {Behind, 5 * time.Second, true}, {Next, 6 * time.Second, false},
		{Unproven, 7 * time.Second, false},
		{Unproven, 9 * time.Second, true},
	} {
		if got := p.Observe(step.v, start.Add(step.after)); got != step.want {
			t.Errorf("relation %d after %s stands: %v", step.v, step.after, got)
		}
	}
}
