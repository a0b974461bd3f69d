package failover

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestATotalHasTheLongestTimesAndAllThatIsCounted(t *testing.T) {
	killed := func(member int, gap, waited time.Duration) Row {
		return Row{
			Loss: Loss{Killed, member}, Gap: gap, Waited: []time.Duration{waited}, Intents: 1,
			Wrong: Wrong{Offline: 1, Lost: 2, Unheard: 3, Doubled: 4, Reads: 5},
		}
	}
	got := Totals([]Row{{Loss: Loss{Kind: None}}, killed(0, 9, 7), killed(1, 8, 5)})
	want := []Row{{
		Loss: Loss{Kind: Killed}, Rows: 2, Gap: 9, Waited: []time.Duration{5, 7}, Intents: 2,
		Wrong: Wrong{Offline: 2, Lost: 4, Unheard: 6, Doubled: 8, Reads: 10},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
