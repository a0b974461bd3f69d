package steps

import "testing"

func TestWhatIsFetchedAheadLeavesMoreOfTheDiskFree(t *testing.T) {
	for _, c := range []struct {
		ahead       bool
		total, want uint64
	}{
		{false, 1 << 40, spareBytes},
		{true, 1 << 40, 1 << 30},
		{true, 1 << 30, 1 << 30 / 10},
		{true, 64 << 20, spareBytes},
	} {
		if got := spareOf(c.ahead, c.total); got != c.want {
			t.Errorf("of %d bytes %d are left, want %d", c.total, got, c.want)
		}
	}
}
