package chaos

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Print writes a row for each round and, below, what did not hold. It reports whether all held.
func Print(out io.Writer, where string, results []Result) (good bool) {
	good = true
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "\n%s\nROUND\tKIND\tQUIET\tFACTS\tACKED/SENT\tOUTCOME\tFAULTS\n", where)
	for _, r := range results {
		outcome := "good"
		if len(r.Wrong) > 0 {
			good, outcome = false, fmt.Sprintf("%d WRONG", len(r.Wrong))
		}
		_, _ = fmt.Fprintf(t, "%d\t%s\t%v\t%d\t%d/%d\t%s\t%s\n", r.Number, r.Kind, r.Quiet.Round(time.Second), r.Facts,
			r.Stored, r.Sent, outcome, strings.Join(r.Done, "; "))
	}
	_ = t.Flush()
	for _, r := range results {
		for _, wrong := range r.Wrong {
			_, _ = fmt.Fprintf(out, "round %d: %s\n", r.Number, wrong)
		}
	}
	return good
}
