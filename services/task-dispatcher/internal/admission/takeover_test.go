package admission

import (
	"testing"
	"time"
)

func TestWhenAProcessTakesOver(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	work := func(progress uint64) Situation { return Situation{Claim: 5, Progress: progress, Work: true} }
	type look struct {
		after time.Duration
		sees  Situation
		left  time.Duration
		due   bool
	}
	cases := map[string][]look{
		"nothing was ever claimed": {{0, Situation{Work: true}, 0, true}},
		"there is no work": {
			{0, Situation{Claim: 5, Progress: 5}, 0, false}, {time.Hour, Situation{Claim: 5, Progress: 5}, 0, false}},
		"it is the leader": {{0, Situation{Claim: 5, Progress: 5, Leads: true, Led: true, Work: true}, 0, false}},
		"no progress since its start": {
			{0, Situation{Claim: 5, Progress: 5}, 0, false}, {time.Hour, work(5), 0, true}},
		"progress since its start": {
			{0, work(5), 0, true}, {0, work(6), time.Second, false}, {time.Second, work(6), 0, true}},
		"the leader makes progress": {
			{0, Situation{Claim: 5, Progress: 5}, 0, false}, {0, work(6), time.Second, false},
			{
				900 * time.Millisecond,
				work(6),
				100 * time.Millisecond,
				false,
			}, {1100 * time.Millisecond, work(7), time.Second, false},
			{2100 * time.Millisecond, work(7), 0, true}},
		"the work was done meanwhile": {
			{0, Situation{Claim: 5, Progress: 5}, 0, false}, {0, work(6), time.Second, false},
			{
				500 * time.Millisecond,
				Situation{Claim: 5, Progress: 6},
				0,
				false,
			}, {2 * time.Second, work(6), time.Second, false}},
		"it no longer relies on its own claim": {
			{
				0,
				Situation{Claim: 5, Progress: 5},
				0,
				false,
			}, {0, Situation{Claim: 6, Progress: 6, Led: true, Work: true}, 0, true}},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			p := TakeOver{After: time.Second}
			for n, l := range looks {
				if left, due := p.Due(l.sees, start.Add(l.after)); left != l.left || due != l.due {
					t.Errorf("call %d: %v left, due %v; want %v and %v", n, left, due, l.left, l.due)
				}
			}
		})
	}
}
