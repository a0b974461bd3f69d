package window

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
)

func TestWhenServersFetchAhead(t *testing.T) {
	at := moment(t, "2026-11-23T12:00:00Z")
	window := func(from uint32) []*environmentv1.Window {
		return []*environmentv1.Window{{FromMinute: from * 60, Minutes: 60}}
	}
	frozen := func(e *environmentv1.Environment) *environmentv1.Environment {
		e.Freezes = []*environmentv1.Freeze{{Until: timestamppb.New(moment(t, "2026-12-01T00:00:00Z"))}}
		return e
	}
	for name, c := range map[string]struct {
		e    *environmentv1.Environment
		open bool
		next string
		ever bool
	}{
		"nothing is said":           {&environmentv1.Environment{Windows: window(12)}, false, "", false},
		"always":                    {&environmentv1.Environment{FetchAlways: true}, true, "", true},
		"always, and frozen":        {frozen(&environmentv1.Environment{FetchAlways: true}), true, "", true},
		"in the window":             {&environmentv1.Environment{FetchWindows: window(12)}, true, "", true},
		"in the window, and frozen": {frozen(&environmentv1.Environment{FetchWindows: window(12)}), true, "", true},
		"before the window": {
			&environmentv1.Environment{FetchWindows: window(22)}, false, "2026-11-23T22:00:00Z", true,
		},
		"without any": {nil, false, "", false},
		"its switch window is another one": {
			&environmentv1.Environment{Windows: window(12), FetchWindows: window(13)},
			false, "2026-11-23T13:00:00Z", true,
		},
	} {
		open, next := Ahead(c.e, at)
		text := ""
		if !next.IsZero() {
			text = next.UTC().Format("2006-01-02T15:04:05Z")
		}
		if open != c.open || text != c.next || FetchesAhead(c.e) != c.ever {
			t.Errorf("%s: open %v, next %q; want %v, %q", name, open, text, c.open, c.next)
		}
	}
	both := &environmentv1.Environment{FetchAlways: true, FetchWindows: window(1)}
	if Check(both) == nil {
		t.Error("at any time and in a window is not refused")
	}
	if Check(&environmentv1.Environment{FetchWindows: []*environmentv1.Window{{Minutes: 0}}}) == nil {
		t.Error("a window for fetching without a length is not refused")
	}
}
