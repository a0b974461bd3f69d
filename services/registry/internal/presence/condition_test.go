package presence

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestAClockDiffersWhenTheFastestBeatSaysSo(t *testing.T) {
	const h, s = time.Hour, time.Second
	for name, c := range map[string]struct {
		ahead, late []time.Duration // of each beat: how far the clock is ahead, and how long the beat took
		want        time.Duration
		since       int // the beat since which it differs, from 1
	}{
		"nothing":                      {},
		"one that agrees":              {ahead: []time.Duration{0, 0, 0, 0, 0, 0, 0}},
		"as far as the bound":          {ahead: []time.Duration{30 * s, 30 * s, 30 * s}},
		"beyond the bound":             {ahead: []time.Duration{31 * s, 31 * s, 31 * s}, want: 31 * s, since: 3},
		"behind":                       {ahead: []time.Duration{-2 * h, -2 * h, -2 * h}, want: -2 * h, since: 3},
		"too few":                      {ahead: []time.Duration{2 * h, 2 * h}},
		"it does not get any earlier":  {ahead: []time.Duration{2 * h, 2 * h, 2 * h, 2 * h}, want: 2 * h, since: 3},
		"beats that waited in a queue": {ahead: make([]time.Duration, 5), late: []time.Duration{80 * s, 60 * s, s}},
		"one waited": {
			ahead: []time.Duration{h, h, h}, late: []time.Duration{0, 40 * s}, want: h, since: 3,
		},
		"set right": {
			ahead: []time.Duration{2 * h, 2 * h, 2 * h, 0, 0, 0, 0, 0},
		},
		"set right a moment ago": {ahead: []time.Duration{-h, -h, -h, 0}},
		"centuries off": {ahead: []time.Duration{290 * 365 * 24 * h, 290 * 365 * 24 * h, 290 * 365 * 24 * h},
			want: 290 * 365 * 24 * h, since: 3},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Unix(1_800_000_000, 0)
			var have Clock
			for n, ahead := range c.ahead {
				received := start.Add(time.Duration(n) * s)
				sent := received.Add(ahead)
				if n < len(c.late) {
					sent = sent.Add(-c.late[n])
				}
				have = have.Add(timestamppb.New(sent), received)
			}
			if have.Ahead() != c.want {
				t.Errorf("ahead by %v, want %v", have.Ahead(), c.want)
			}
			since := time.Time{}
			if c.since > 0 {
				since = start.Add(time.Duration(c.since-1) * s)
			}
			if !have.DiffersSince().Equal(since) {
				t.Errorf("since %v, want %v", have.DiffersSince(), since)
			}
			if old := have.Add(nil, start); old != (Clock{}) {
				t.Errorf("an executor that does not say when it sent a beat leaves %+v", old)
			}
		})
	}
}
