package rollout

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Load makes a book of a rollout as it is: its record, with the counts of its waves, and its targets. The targets lose
// their changes, so that one event ends what is under way.
func (b *Book) Load(record *rolloutv1.Rollout, targets []*rolloutv1.Target) {
	b.Rollout, b.targets = proto.CloneOf(record), map[string]*rolloutv1.Target{}
	targets = slices.SortedFunc(slices.Values(targets), func(x, y *rolloutv1.Target) int {
		return cmp.Or(cmp.Compare(x.Wave, y.Wave), cmp.Compare(x.Place, y.Place))
	})
	for _, t := range targets {
		t = &rolloutv1.Target{
			ServerId: t.ServerId, Wave: t.Wave, Place: t.Place, State: t.State, Since: t.Since, Reason: t.Reason,
			TakenAt: t.TakenAt, UnhealthyBefore: t.UnhealthyBefore,
		}
		b.targets[t.ServerId] = t
		for len(b.waves) <= int(t.Wave) {
			b.waves, b.heads = append(b.waves, nil), append(b.heads, 0)
		}
		b.waves[t.Wave] = append(b.waves[t.Wave], t.ServerId)
		b.ready(t)
	}
}
