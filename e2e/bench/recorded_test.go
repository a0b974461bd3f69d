package bench

import (
	"slices"
	"testing"
)

func TestAFigureThatGotWorseIsNamed(t *testing.T) {
	rows, err := readRecords([]byte("# figure\nfold\t0.50\thigher\t0.20\np99\t2.00\tlower\t0.10\n"))
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v, %v", rows, err)
	}
	for _, c := range []struct {
		row   int
		now   float64
		worse bool
	}{{0, 0.41, false}, {0, 0.39, true}, {0, 0.9, false}, {1, 2.19, false}, {1, 2.21, true}, {1, 1, false}} {
		if got := rows[c.row].worse(c.now); got != c.worse {
			t.Errorf("%s: %.2f after %.2f: worse is %v", rows[c.row].name, c.now, rows[c.row].ratio, got)
		}
	}
	for _, bad := range []string{"fold\t0.5\n", "fold\tmuch\thigher\t0.2\n", "fold\t0.5\tup\t0.2\n"} {
		if _, err := readRecords([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestARecordKeepsItsNoiseAndOtherRows(t *testing.T) {
	had := []record{{"fold", 0.5, true, 0.35}, {"query", 0.3, true, 0.1}}
	now, ok := recordOf(figure{name: "fold", ratio: "0.61", aim: ">= 0.6"})
	if !ok {
		t.Fatal("a figure with a ratio and an aim has no row")
	}
	rows, err := readRecords(writeRecords(had, []record{now}))
	want := []record{{"fold", 0.61, true, 0.35}, {"query", 0.3, true, 0.1}}
	if err != nil || !slices.Equal(rows, want) {
		t.Errorf("%v, %v; want %v", rows, err, want)
	}
	if _, ok := recordOf(figure{name: "x", ratio: "", aim: ">= 1"}); ok {
		t.Error("a figure without a ratio has a row")
	}
}
