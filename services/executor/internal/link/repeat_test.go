package link

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// TestWhatAKilledBusForgotIsSaidAgainHoweverLongItWasAway: a list that was acknowledged
// shortly before the end of the bus is said once more, also by an executor that waited longer
// than it remembers reports.
func TestWhatAKilledBusForgotIsSaidAgainHoweverLongItWasAway(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_700_000_000, 0)
	after := func(d time.Duration) time.Time { return began.Add(d) }
	for name, c := range map[string]struct {
		acknowledged time.Duration // and the bus is killed ten minutes after the beginning
		want         int
	}{
		"a minute before":    {9 * time.Minute, 1},
		"long on the disk":   {2 * time.Minute, 0},
		"in the last second": {10*time.Minute - time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sent{}
			said := false
			for at := time.Duration(0); at <= 10*time.Minute; at += time.Second {
				if !said && at >= c.acknowledged {
					s.add(Report{Sequence: 1, Kind: topology.ReportAgents}, after(at))
					said = true
				}
				s.connected(after(at))
			}
			back := after(time.Hour)
			s.connected(back) // the connection exists before the callback runs
			s.doubt()
			if have := len(s.doubted()); have != c.want {
				t.Errorf("%d reports are said again, want %d", have, c.want)
			}
		})
	}
}
