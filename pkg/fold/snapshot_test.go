package fold

import "testing"

func TestASnapshotIsDueAfterManyFactsAndInAReplayAfterTwiceTheWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		position, saved uint64
		live, want      bool
	}{
		{snapshotEvery - 1, 0, true, false}, {snapshotEvery, 0, true, true}, {snapshotEvery, 0, false, true},
		{5 * snapshotEvery, 4 * snapshotEvery, true, true}, {5 * snapshotEvery, 4 * snapshotEvery, false, false},
		{8 * snapshotEvery, 4 * snapshotEvery, false, true},
	} {
		if have := snapshotDue(c.position, c.saved, c.live); have != c.want {
			t.Errorf("at %d after %d, live %v: %v; want %v", c.position, c.saved, c.live, have, c.want)
		}
	}
}
