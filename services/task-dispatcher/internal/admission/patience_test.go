package admission

import (
	"testing"
	"time"
)

func TestWhenAProcessTakesOver(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	work := func(progress uint64) Outlook { return Outlook{Claim: 5, Progress: progress, Work: true} }
	type look struct {
		after time.Duration
		sees  Outlook
		left  time.Duration
		due   bool
	}
	cases := map[string][]look{
		"nobody ever claimed": {{0, Outlook{Work: true}, 0, true}},
		"nothing is to be done": {
			{0, Outlook{Claim: 5, Progress: 5}, 0, false}, {time.Hour, Outlook{Claim: 5, Progress: 5}, 0, false}},
		"it has the claim": {{0, Outlook{Claim: 5, Progress: 5, Held: true, Mine: true, Work: true}, 0, false}},
		"nothing moved since its start": {
			{0, Outlook{Claim: 5, Progress: 5}, 0, false}, {time.Hour, work(5), 0, true}},
		"somebody did something since its start": {
			{0, work(5), 0, true}, {0, work(6), time.Second, false}, {time.Second, work(6), 0, true}},
		"somebody goes on": {
			{0, Outlook{Claim: 5, Progress: 5}, 0, false}, {0, work(6), time.Second, false},
			{900 * time.Millisecond, work(6), 100 * time.Millisecond, false}, {1100 * time.Millisecond, work(7), time.Second, false},
			{2100 * time.Millisecond, work(7), 0, true}},
		"what was to be done was done meanwhile": {
			{0, Outlook{Claim: 5, Progress: 5}, 0, false}, {0, work(6), time.Second, false},
			{500 * time.Millisecond, Outlook{Claim: 5, Progress: 6}, 0, false}, {2 * time.Second, work(6), time.Second, false}},
		"it does not rely on its own claim any more": {
			{0, Outlook{Claim: 5, Progress: 5}, 0, false}, {0, Outlook{Claim: 6, Progress: 6, Mine: true, Work: true}, 0, true}},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			p := Patience{Most: time.Second}
			for n, l := range looks {
				if left, due := p.Left(l.sees, start.Add(l.after)); left != l.left || due != l.due {
					t.Errorf("look %d: %v left, due %v; want %v and %v", n, left, due, l.left, l.due)
				}
			}
		})
	}
}
