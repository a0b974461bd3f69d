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
		have Place
		d    *desiredv1.Document
		want Verdict
	}{
		"the first one":                           {Place{}, doc(1, 5), Next},
		"the first one, in a later epoch":         {Place{}, doc(3, 5), Next},
		"the same one":                            {Place{1, 5, 50}, doc(1, 5, 3), Same},
		"the same one of a time without epochs":   {Place{0, 5, 0}, doc(1, 5, 3), Same},
		"another one of the same generation":      {Place{1, 5, 51}, doc(1, 5, 3), Behind},
		"an older one":                            {Place{1, 5, 50}, doc(1, 4, 3), Behind},
		"a later one of the same history":         {Place{1, 3, 30}, doc(1, 5, 2, 3), Next},
		"a later one, and another fact was there": {Place{1, 3, 31}, doc(1, 5, 2, 3), Behind},
		"a later one that knows of no such place": {Place{1, 4, 40}, doc(1, 5, 2, 3), Behind},
		"a later one that does not reach back":    {Place{1, 3, 30}, doc(1, 90, 80, 85), Unproven},
		"one that was confirmed":                  {Place{1, 3, 30}, confirmed(doc(1, 90, 80, 85), 3, 30), Next},
		"one of another history, confirmed":       {Place{1, 3, 31}, confirmed(doc(1, 90, 80, 85), 3, 30), Behind},
		"an older one of a higher epoch":          {Place{1, 9, 90}, doc(2, 4), Next},
		"a later one of a lower epoch":            {Place{2, 4, 40}, doc(1, 9, 4), Behind},
		"a later one without a lineage":           {Place{1, 4, 40}, bare, Next},
		"a later one, to a server without marks":  {Place{0, 4, 0}, doc(1, 9, 8), Next},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Judge(c.have, c.d); got != c.want {
				t.Errorf("verdict %d, want %d", got, c.want)
			}
		})
	}
}

func TestAnOlderCopyThatIsReadOnceSaysNothing(t *testing.T) {
	start := time.Unix(1000, 0)
	var p Patience
	for _, step := range []struct {
		v     Verdict
		after time.Duration
		want  bool
	}{
		{Behind, 0, false}, {Same, time.Second, false}, {Behind, 2 * time.Second, false}, {Behind, 3 * time.Second, false},
		{Behind, 4 * time.Second, true}, {Behind, 5 * time.Second, true}, {Next, 6 * time.Second, false}, {Unproven, 7 * time.Second, false},
		{Unproven, 9 * time.Second, true},
	} {
		if got := p.Hear(step.v, start.Add(step.after)); got != step.want {
			t.Errorf("verdict %d after %s stands: %v", step.v, step.after, got)
		}
	}
}
