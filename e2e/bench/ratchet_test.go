package bench

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// recordedFile has the ratio of each figure as it was measured last on a quiet machine. `make bench RECORD=1` writes
// it, and every other run compares with it.
const recordedFile = "recorded.tsv"

// defaultNoise is by which share of itself a ratio of a new row may get worse before it is named.
const defaultNoise = 0.2

// record is a row of the file.
type record struct {
	name   string
	ratio  float64
	higher bool    // better is higher
	noise  float64 // the share by which runs of one build differ
}

// worse reports whether a ratio is worse than the recorded one by more than its noise.
func (r record) worse(now float64) bool {
	if r.higher {
		return now < r.ratio*(1-r.noise)
	}
	return now > r.ratio*(1+r.noise)
}

// recordOf returns the row of a figure; false for one without a ratio or an aim, which says what is better.
func recordOf(f figure) (record, bool) {
	ratio, err := strconv.ParseFloat(f.ratio, 64)
	higher := strings.HasPrefix(f.aim, ">=")
	return record{f.name, ratio, higher, defaultNoise}, err == nil && (higher || strings.HasPrefix(f.aim, "<="))
}

// readRecords returns the rows of the file; none without a file.
func readRecords(text []byte) (rows []record, err error) {
	reader := csv.NewReader(bytes.NewReader(text))
	reader.Comma, reader.Comment, reader.FieldsPerRecord = '\t', '#', 4
	lines, err := reader.ReadAll()
	for n, line := range lines {
		row := record{name: line[0], higher: line[2] == "higher"}
		var ratioErr, noiseErr error
		row.ratio, ratioErr = strconv.ParseFloat(line[1], 64)
		row.noise, noiseErr = strconv.ParseFloat(line[3], 64)
		if ratioErr != nil || noiseErr != nil || !row.higher && line[2] != "lower" {
			return nil, fmt.Errorf("row %d: %q is not NAME, RATIO, higher or lower, NOISE", n+1, line)
		}
		rows = append(rows, row)
	}
	return rows, err
}

// writeRecords returns the file with the rows by name. The noise of a row that was there stays.
func writeRecords(had, now []record) []byte {
	for n := range now {
		if at := slices.IndexFunc(had, func(r record) bool { return r.name == now[n].name }); at >= 0 {
			now[n].noise = had[at].noise
			had = slices.Delete(slices.Clone(had), at, at+1)
		}
	}
	all := append(slices.Clone(had), now...)
	slices.SortFunc(all, func(a, b record) int { return strings.Compare(a.name, b.name) })
	text := []byte("# figure\tratio\tbetter\tnoise; see README.md\n")
	for _, r := range all {
		better := map[bool]string{true: "higher", false: "lower"}[r.higher]
		text = fmt.Appendf(text, "%s\t%.2f\t%s\t%.2f\n", r.name, r.ratio, better, r.noise)
	}
	return text
}

// ratchet compares what was measured with what is recorded, or records it. It returns the names of the figures that
// got worse, each with both ratios.
func ratchet(figures []figure, write bool) (worse []string, err error) {
	text, err := os.ReadFile(recordedFile)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	had, err := readRecords(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", recordedFile, err)
	}
	var now []record
	for _, f := range figures {
		r, ok := recordOf(f)
		if !ok {
			continue
		}
		now = append(now, r)
		at := slices.IndexFunc(had, func(h record) bool { return h.name == r.name })
		if at >= 0 && had[at].worse(r.ratio) {
			worse = append(worse, fmt.Sprintf("%s: %.2f, recorded %.2f with a noise of %.0f %%",
				r.name, r.ratio, had[at].ratio, 100*had[at].noise))
		}
	}
	if write {
		return nil, os.WriteFile(recordedFile, writeRecords(had, now), 0o644)
	}
	return worse, nil
}
