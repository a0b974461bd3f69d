package epoch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
)

func TestAServerIsAheadWhenTheLedgerLacksWhatItApplied(t *testing.T) {
	at := time.Unix(1000, 0)
	said := func(epoch, generation, mark uint64, code string) presence.Beat {
		return presence.Beat{
			At:    at,
			Code:  code,
			Place: &serverv1.DocumentPlace{Epoch: epoch, Generation: generation, Mark: mark},
		}
	}
	in := func(epoch uint64) *serverv1.Server {
		return &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE, Epoch: epoch}
	}
	lost := in(1)
	lost.Ahead = &serverv1.ServerAhead{}
	known := in(1)
	known.Confirmed = &serverv1.DocumentPlace{Epoch: 1, Generation: 50, Mark: 7}
	const end, mark = 100, 7 // of the ledger, and of its fact at the sequence in the beat
	for name, c := range map[string]struct {
		s     *serverv1.Server
		last  presence.Beat
		doubt Doubt
		want  string
	}{
		"within the ledger":                    {in(1), said(1, 50, 7, ""), NoDoubt, ""},
		"beyond its end":                       {in(1), said(1, 101, 0, ""), Beyond, "ahead"},
		"of a higher epoch":                    {in(1), said(2, 50, 7, ""), Beyond, "ahead"},
		"beyond its end, of a lower epoch":     {in(2), said(1, 101, 0, ""), NoDoubt, ""},
		"in an old record":                     {in(0), said(1, 101, 0, ""), Beyond, "ahead"},
		"known to be ahead":                    {lost, said(1, 101, 0, code.LedgerBehind), NoDoubt, ""},
		"behind, and another fact is there":    {in(1), said(1, 50, 8, code.LedgerBehind), Unproven, "ahead"},
		"behind, and the same fact is there":   {in(1), said(1, 50, 7, code.LedgerBehind), Unproven, ""},
		"behind, without a mark":               {in(1), said(1, 50, 0, code.LedgerBehind), Unproven, "ahead"},
		"behind, before it took its new epoch": {in(2), said(1, 50, 8, code.LedgerBehind), NoDoubt, ""},
		"unproven, and the same fact is there": {
			in(1), said(1, 50, 7, code.PlaceUnproven), Unproven, "place-confirmed",
		},
		"unproven, and another fact is there": {in(1), said(1, 50, 8, code.PlaceUnproven), Unproven, "ahead"},
		"unproven, and confirmed already":     {known, said(1, 50, 7, code.PlaceUnproven), NoDoubt, ""},
		"unproven at another place than confirmed": {
			known, said(1, 51, 7, code.PlaceUnproven), Unproven, "place-confirmed",
		},
		"only invited": {
			&serverv1.Server{Life: serverv1.Life_LIFE_INVITED}, said(1, 101, 0, ""), NoDoubt, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DoubtOf(c.s, c.last, end); got != c.doubt {
				t.Errorf("doubt %d, want %d", got, c.doubt)
			}
			name := ""
			if body := Settle(c.s, c.last, end, mark); body != nil {
				name = ledger.Fact{Noun: ledger.Server, Body: body}.Name()
			}
			if name != c.want {
				t.Errorf("the fact is %q, want %q", name, c.want)
			}
		})
	}
}

func TestTheNextEpochIsAboveTheLedgersAndTheServers(t *testing.T) {
	for _, c := range []struct{ own, said, want uint64 }{
		{0, 1, 2}, {1, 1, 2}, {1, 5, 6}, {7, 2, 8}, {1, 1<<64 - 1, highest + 1},
	} {
		s := &serverv1.Server{Epoch: c.own, Ahead: &serverv1.ServerAhead{Place: &serverv1.DocumentPlace{Epoch: c.said}}}
		if got := Next(s); got != c.want {
			t.Errorf("after %d and %d comes %d, want %d", c.own, c.said, got, c.want)
		}
	}
}

func TestALossNamesWhatAcceptingItWouldChange(t *testing.T) {
	t.Parallel()
	one, two := &imagev1.Ref{Id: "1", Digest: []byte("1")}, &imagev1.Ref{Id: "2", Digest: []byte("2")}
	loss := Loss(&serverv1.Server{Found: []*serverv1.FoundAgent{
		{Agent: "lost", Trace: serverv1.Trace_TRACE_INSTANCE}, {Agent: "stray", Trace: serverv1.Trace_TRACE_PROCESS},
	}}, slices.Values([]*instancev1.Instance{
		{Agent: "replaced", Wanted: one, Observed: two}, {Agent: "removed", Observed: one},
		{Agent: "installed", Wanted: one}, {Agent: "same", Wanted: one, Observed: one}, {Agent: "gone"},
	}))
	var have []string
	for _, a := range loss.Agents {
		have = append(have, fmt.Sprint(a.Agent, " ", int(a.Change)))
	}
	want := []string{"installed 1", "lost 0", "removed 3", "replaced 2"}
	if !slices.Equal(have, want) || loss.Same != 2 {
		t.Errorf("%v, and %d the same; want %v and 2", have, loss.Same, want)
	}
}
