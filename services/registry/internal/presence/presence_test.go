package presence

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestPresenceFollowsFromTheLastBeat(t *testing.T) {
	start := time.Unix(1000, 0)
	after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	of := func(life serverv1.Life, p serverv1.Presence) *serverv1.Server {
		return &serverv1.Server{Life: life, Presence: p, BootId: "boot"}
	}
	const online, offline = serverv1.Presence_PRESENCE_ONLINE, serverv1.Presence_PRESENCE_OFFLINE
	on, off := &serverv1.Online{BootId: "boot"}, &serverv1.Offline{}
	for _, c := range []struct {
		name  string
		s     *serverv1.Server
		last  Beat
		now   int
		grace int
		want  proto.Message
	}{
		{"the first beat", of(serverv1.Life_LIFE_ALIVE, 0), Beat{At: start, BootID: "boot"}, 1, 0, on},
		{
			"a beat of one that was offline", of(serverv1.Life_LIFE_ALIVE, offline),
			Beat{At: start, BootID: "boot"}, 1, 0, on,
		},
		{"one more beat", of(serverv1.Life_LIFE_ALIVE, online), Beat{At: start, BootID: "boot"}, 1, 0, nil},
		{
			"a beat of a new boot", of(serverv1.Life_LIFE_ALIVE, online), Beat{At: start, BootID: "next"}, 1, 0,
			&serverv1.Online{BootId: "next"},
		},
		{
			"silence just short of the limit", of(serverv1.Life_LIFE_ALIVE, online),
			Beat{At: start, BootID: "boot"}, 14, 0, nil,
		},
		{"silence at the limit", of(serverv1.Life_LIFE_ALIVE, online), Beat{At: start, BootID: "boot"}, 15, 0, off},
		{
			"silence of one that is offline", of(serverv1.Life_LIFE_ALIVE, offline),
			Beat{At: start, BootID: "boot"}, 99, 0, nil,
		},
		{"silence within the grace", of(serverv1.Life_LIFE_ALIVE, online), Beat{}, 10, 15, nil},
		{"silence after the grace", of(serverv1.Life_LIFE_ALIVE, online), Beat{}, 15, 15, off},
		{"one that was never last", of(serverv1.Life_LIFE_ALIVE, 0), Beat{}, 99, 0, nil},
		{"a beat of one that is dying", of(serverv1.Life_LIFE_DYING, 0), Beat{At: start, BootID: "boot"}, 1, 0, on},
		{"a beat of one that is dead", of(serverv1.Life_LIFE_DEAD, 0), Beat{At: start, BootID: "boot"}, 1, 0, nil},
		{
			"a beat of one that is only invited", of(serverv1.Life_LIFE_INVITED, 0),
			Beat{At: start, BootID: "boot"}, 1, 0, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := Decide(c.s, c.last, Timing{
				Now: after(c.now), Heard: after(c.now), Interval: 5 * time.Second, Grace: after(c.grace),
			})
			if diff := cmp.Diff(c.want, have, protocmp.Transform(), protocmp.IgnoreFields(&serverv1.Offline{},
				"last_beat_at")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestABeatThatMayStillWaitAtTheBusIsNotMissing(t *testing.T) {
	start := time.Unix(1000, 0)
	s := &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE, Presence: serverv1.Presence_PRESENCE_ONLINE, BootId: "boot"}
	timing := Timing{Now: start.Add(time.Hour), Heard: start.Add(14 * time.Second), Interval: 5 * time.Second}
	if body := Decide(s, Beat{At: start, BootID: "boot"}, timing); body != nil {
		t.Errorf("beats were looked at for 14 s only: %T", body)
	}
	timing.Heard = start.Add(15 * time.Second)
	if _, ok := Decide(s, Beat{At: start, BootID: "boot"}, timing).(*serverv1.Offline); !ok {
		t.Error("it stays online after three beats that did not come")
	}
}

func TestAConditionIsRecordedWhenItDiffersAndNotTooOften(t *testing.T) {
	const running, suspended = serverv1.ExecutorState_EXECUTOR_STATE_RUNNING,
		serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED
	now := time.Unix(10_000, 0)
	known := func(state serverv1.ExecutorState, code string, ago time.Duration) *serverv1.ServerCondition {
		return &serverv1.ServerCondition{State: state, Code: code, Since: timestamppb.New(now.Add(-ago))}
	}
	for name, c := range map[string]struct {
		have  *serverv1.ServerCondition
		state serverv1.ExecutorState
		code  string
		want  string
	}{
		"well from the start": {nil, running, "", ""},
		"no state":            {nil, 0, "", ""},
		"suspended":           {nil, suspended, "BAD_TOMBSTONE", "SUSPENDED BAD_TOMBSTONE"},
		"suspended as before": {
			known(suspended, "BAD_TOMBSTONE", time.Hour), suspended, "BAD_TOMBSTONE", "",
		},
		"for another reason": {
			known(suspended, "BAD_TOMBSTONE", time.Hour), suspended, "NO_TOMBSTONE", "SUSPENDED NO_TOMBSTONE",
		},
		"for another reason, a moment later": {
			known(suspended, "BAD_TOMBSTONE", time.Second), suspended, "NO_TOMBSTONE", "",
		},
		"well again":                 {known(suspended, "BAD_TOMBSTONE", time.Hour), running, "", "RUNNING "},
		"well again, a moment later": {known(suspended, "BAD_TOMBSTONE", time.Second), running, "", "RUNNING "},
		"suspended a moment after it was well": {
			known(running, "", time.Second), suspended, "BAD_TOMBSTONE", "",
		},
		"a code about the history is ignored": {nil, suspended, code.LedgerBehind, ""},
		"an invalid code":                     {nil, suspended, "bad\nCODE\x1b[31m", "SUSPENDED CODE31"},
		"a clock that was set back":           {known(suspended, "A", -time.Hour), suspended, "B", "SUSPENDED B"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE, Condition: c.have}
			got := ""
			if b := DecideCondition(s, Beat{At: now, State: c.state, Code: c.code}, now); b != nil {
				got = fmt.Sprint(b.State.String()[len("EXECUTOR_STATE_"):], " ", b.Code)
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// beats plays beats of sessions, one letter each at an interval, and returns which facts follow.
func beats(s *serverv1.Server, order string, every time.Duration) (out []string) {
	timeout, start := SessionTimeout(5*time.Second), time.Unix(1000, 0)
	var last Beat
	now := start
	for _, who := range order {
		now = now.Add(every)
		if who == '.' {
			continue
		}
		from := &serverv1.Sighting{SessionId: string(who), BootId: "boot-" + string(who)}
		last = Beat{At: now, BootID: from.BootId, Sessions: last.Sessions.Add(from, now, timeout)}
		for _, body := range []proto.Message{
			Decide(s, last, Timing{Now: now, Heard: now, Interval: 5 * time.Second}),
			DecideDuplicate(s, last, now, start, timeout),
		} {
			if body != nil {
				f := ledger.Fact{Noun: ledger.Server, Key: "s", Body: body, At: now}
				out = append(out, f.Name())
				server.Apply(s, f)
			}
		}
	}
	return out
}

func TestTwoMachinesAreDistinguishedFromOneThatRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		order string
		want  string
	}{
		"one machine":                           {"AAAAAAAAAA", "[online]"},
		"one that boots again":                  {"AAAABBBBBBBB", "[online online]"},
		"one that boots again and again":        {"AABBCCDDEEFF", "[online online online online online online]"},
		"a beat that came late":                 {"AAABABBBBBBB", "[online online]"},
		"a trial of a new executor that failed": {"AAABBAAAAAAAA", "[online online]"},
		"trial after trial":                     {"AAABAAACAAADAAAEAAA", "[online online]"},
		"two machines": {
			"AAAABABABABABABABABABABABABABABABABABABABAB", "[online online duplicated]",
		},
		"two machines that beat in pairs": {"AABBAABBAABBAABBAABBAABB", "[online online duplicated]"},
		"two machines, one of which goes": {
			"ABABABABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
			"[online online duplicated duplicate-ended online]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(beats(&serverv1.Server{Id: "s", Life: serverv1.Life_LIFE_ALIVE}, c.order,
				2500*time.Millisecond)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
