package server

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestAServerIsAheadWhenTheLedgerLacksWhatItApplied(t *testing.T) {
	at := time.Unix(1000, 0)
	said := func(epoch, generation, mark uint64, code string) Heard {
		return Heard{At: at, Code: code, Place: &serverv1.DocumentPlace{Epoch: epoch, Generation: generation, Mark: mark}}
	}
	in := func(epoch uint64) *serverv1.Server {
		return &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE, Epoch: epoch}
	}
	lost := in(1)
	lost.Ahead = &serverv1.ServerAhead{}
	known := in(1)
	known.Confirmed = &serverv1.DocumentPlace{Epoch: 1, Generation: 50, Mark: 7}
	const end, mark = 100, 7 // of the ledger, and of its fact at the place that the server said
	for name, c := range map[string]struct {
		s     *serverv1.Server
		heard Heard
		doubt Doubt
		want  string
	}{
		"within the ledger":                        {in(1), said(1, 50, 7, ""), NoDoubt, ""},
		"beyond its end":                           {in(1), said(1, 101, 0, ""), Beyond, "ahead"},
		"of a higher epoch":                        {in(1), said(2, 50, 7, ""), Beyond, "ahead"},
		"beyond its end, of a lower epoch":         {in(2), said(1, 101, 0, ""), NoDoubt, ""},
		"in an old record":                         {in(0), said(1, 101, 0, ""), Beyond, "ahead"},
		"known to be ahead":                        {lost, said(1, 101, 0, CodeLedgerBehind), NoDoubt, ""},
		"behind, and another fact is there":        {in(1), said(1, 50, 8, CodeLedgerBehind), Unproven, "ahead"},
		"behind, and the same fact is there":       {in(1), said(1, 50, 7, CodeLedgerBehind), Unproven, ""},
		"behind, without a mark":                   {in(1), said(1, 50, 0, CodeLedgerBehind), Unproven, "ahead"},
		"behind, before it took its new epoch":     {in(2), said(1, 50, 8, CodeLedgerBehind), NoDoubt, ""},
		"unproven, and the same fact is there":     {in(1), said(1, 50, 7, CodePlaceUnproven), Unproven, "place-confirmed"},
		"unproven, and another fact is there":      {in(1), said(1, 50, 8, CodePlaceUnproven), Unproven, "ahead"},
		"unproven, and confirmed already":          {known, said(1, 50, 7, CodePlaceUnproven), NoDoubt, ""},
		"unproven at another place than confirmed": {known, said(1, 51, 7, CodePlaceUnproven), Unproven, "place-confirmed"},
		"only invited":                             {&serverv1.Server{Life: serverv1.Life_LIFE_INVITED}, said(1, 101, 0, ""), NoDoubt, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DoubtOf(c.s, c.heard, end); got != c.doubt {
				t.Errorf("doubt %d, want %d", got, c.doubt)
			}
			name := ""
			if body := Settle(c.s, c.heard, end, mark); body != nil {
				name = ledger.Fact{Noun: ledger.Server, Body: body}.Name()
			}
			if name != c.want {
				t.Errorf("the fact is %q, want %q", name, c.want)
			}
		})
	}
}

func TestTheNextEpochIsAboveTheLedgersAndTheServers(t *testing.T) {
	for _, c := range []struct{ own, said, want uint64 }{{0, 1, 2}, {1, 1, 2}, {1, 5, 6}, {7, 2, 8}, {1, 1<<64 - 1, highestEpoch + 1}} {
		s := &serverv1.Server{Epoch: c.own, Ahead: &serverv1.ServerAhead{Place: &serverv1.DocumentPlace{Epoch: c.said}}}
		if got := NextEpoch(s); got != c.want {
			t.Errorf("after %d and %d comes %d, want %d", c.own, c.said, got, c.want)
		}
	}
}

func TestAConditionIsRecordedWhenItDiffersAndNotTooOften(t *testing.T) {
	const running, suspended = serverv1.ExecutorState_EXECUTOR_STATE_RUNNING, serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED
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
		"well from the start":                 {nil, running, "", ""},
		"one that does not say":               {nil, 0, "", ""},
		"suspended":                           {nil, suspended, "BAD_TOMBSTONE", "SUSPENDED BAD_TOMBSTONE"},
		"suspended as before":                 {known(suspended, "BAD_TOMBSTONE", time.Hour), suspended, "BAD_TOMBSTONE", ""},
		"for another reason":                  {known(suspended, "BAD_TOMBSTONE", time.Hour), suspended, "NO_TOMBSTONE", "SUSPENDED NO_TOMBSTONE"},
		"for another reason, a moment later":  {known(suspended, "BAD_TOMBSTONE", time.Second), suspended, "NO_TOMBSTONE", ""},
		"well again":                          {known(suspended, "BAD_TOMBSTONE", time.Hour), running, "", "RUNNING "},
		"what its history says is told apart": {nil, suspended, CodeLedgerBehind, ""},
		"a code that is none":                 {nil, suspended, "bad\nCODE\x1b[31m", "SUSPENDED CODE31"},
		"a clock that was set back":           {known(suspended, "A", -time.Hour), suspended, "B", "SUSPENDED B"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE, Condition: c.have}
			got := ""
			if b := Condition(s, Heard{At: now, State: c.state, Code: c.code}, now); b != nil {
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
	lately, start := Lately(5*time.Second), time.Unix(1000, 0)
	var heard Heard
	now := start
	for _, who := range order {
		now = now.Add(every)
		if who == '.' {
			continue
		}
		from := &serverv1.Sighting{SessionId: string(who), BootId: "boot-" + string(who)}
		heard = Heard{At: now, BootID: from.BootId, Sessions: heard.Sessions.Hear(from, now, lately)}
		for _, body := range []proto.Message{
			Judge(s, heard, Watch{Now: now, Beat: 5 * time.Second}), Duplicate(s, heard, now, start, lately),
		} {
			if body != nil {
				f := ledger.Fact{Noun: ledger.Server, Key: "s", Body: body, At: now}
				out = append(out, f.Name())
				Apply(s, f)
			}
		}
	}
	return out
}

func TestTwoMachinesAreToldFromOneThatStartsAgain(t *testing.T) {
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
		"two machines":                          {"AAAABABABABABABABABABABABABABABABABABABABAB", "[online online duplicated]"},
		"two machines that beat in pairs":       {"AABBAABBAABBAABBAABBAABB", "[online online duplicated]"},
		"two machines, one of which goes":       {"ABABABABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "[online online duplicated duplicate-ended online]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(beats(&serverv1.Server{Id: "s", Life: serverv1.Life_LIFE_ALIVE}, c.order, 2500*time.Millisecond)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
