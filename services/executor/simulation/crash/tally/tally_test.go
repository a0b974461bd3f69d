package tally

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPrintedTableIsAddedToTheTotalsByKindOfChange(t *testing.T) {
	totals := filepath.Join(t.TempDir(), "totals")
	t.Setenv(TotalsVariable, totals)
	n := Begin("power cut, itself", "upgrade, overlap", "self: remove")
	n.Add("upgrade, overlap", "stage", Old)
	n.Add("upgrade, overlap", "a step of its own", New)
	n.Add("self: remove", "start", Bad)
	var out strings.Builder
	if bad, err := n.Print(&out, 0); bad != 1 || err != nil {
		t.Errorf("%d bad, %v; want 1", bad, err)
	}
	got, err := os.ReadFile(totals)
	if want := "power cut\tupgrade\t2\t1\t1\t0\npower cut\tself\t1\t0\t0\t1\n"; string(got) != want || err != nil {
		t.Errorf("totals %q (%v), want %q", got, err, want)
	}
	if !strings.Contains(out.String(), "power cut, itself: 3 interruptions in 0s, 1 bad") {
		t.Errorf("printed:\n%s", out.String())
	}
}
