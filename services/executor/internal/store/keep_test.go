package store

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

func TestWhatIsBeyondThePolicy(t *testing.T) {
	at := time.Unix(1700000000, 0)
	kept := func(name string, age int, mb uint64) journal.Kept {
		return journal.Kept{
			Image: change.Manifest{
				Manifest: &imagev1.Manifest{
					Version: name,
					Blob:    &imagev1.Blob{Digest: []byte(name), UnpackedSizeBytes: mb << 20},
				},
			},
			Since: at.Add(-time.Duration(age) * time.Hour),
		}
	}
	all := map[string][]journal.Kept{
		"a": {kept("a2", 1, 10), kept("a1", 5, 10)},
		"b": {kept("b3", 2, 10), kept("b2", 3, 10), kept("b1", 4, 10)},
	}
	for _, c := range []struct {
		name   string
		keep   Keep
		needed string
		want   []string
	}{
		{"nothing is kept", Keep{}, "", []string{"a1", "a2", "b1", "b2", "b3"}},
		{"everything fits", Keep{9, 50 << 20}, "", nil},
		{"one of each", Keep{1, 50 << 20}, "", []string{"a1", "b1", "b2"}},
		{"the oldest of all goes first", Keep{9, 49 << 20}, "", []string{"a1"}},
		{"by bytes", Keep{9, 20 << 20}, "", []string{"a1", "b1", "b2"}},
		{"what runs costs nothing", Keep{9, 20 << 20}, "b3", []string{"a1", "b1"}},
		{"no bytes", Keep{9, 0}, "", []string{"a1", "a2", "b1", "b2", "b3"}},
		{"fewer than none", Keep{-1, 50 << 20}, "", []string{"a1", "a2", "b1", "b2", "b3"}},
	} {
		gone := c.keep.beyond(all, func(d []byte) bool { return string(d) == c.needed })
		var names []string
		for _, g := range gone {
			names = append(names, g.Image.GetVersion())
		}
		slices.Sort(names)
		if diff := cmp.Diff(c.want, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
