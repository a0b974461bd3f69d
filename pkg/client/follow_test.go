package client_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// sequences reads what a query means now.
func sequences(t testing.TB, c *client.Client, q client.Query) (out []uint64, err error) {
	t.Helper()
	for e, err := range c.Events(within(t), q) {
		if err != nil {
			return out, err
		}
		out = append(out, e.Sequence)
	}
	return out, nil
}

func TestEventsYieldsWhatAQueryMeans(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	tasks := recordFacts(t, b, 1200)
	c := connectToLedger(t, b)
	for name, test := range map[string]struct {
		query client.Query
		want  []uint64
	}{
		"a noun":               {client.Query{Noun: ledger.Server}, []uint64{1}},
		"a key":                {client.Query{Key: server1}, []uint64{1}},
		"a noun and a key":     {client.Query{Noun: ledger.Task, Key: tasks[1000]}, []uint64{1002}},
		"a key of another":     {client.Query{Noun: ledger.Server, Key: tasks[1000]}, nil},
		"from a sequence":      {client.Query{From: 1199}, []uint64{1199, 1200}},
		"behind the end":       {client.Query{From: 5000}, nil},
		"below a sequence":     {client.Query{Below: 3}, []uint64{1, 2}},
		"within, across parts": {client.Query{From: 499, Below: 502}, []uint64{499, 500, 501}},
	} {
		if have, err := sequences(t, c, test.query); err != nil || !slices.Equal(have, test.want) {
			t.Errorf("%s: %v (%v), want %v", name, have, err, test.want)
		}
	}
	if all, err := sequences(t, c, client.Query{}); err != nil || len(all) != 1200 {
		t.Errorf("%d facts (%v), want 1200", len(all), err)
	}
}

func TestTheLastEventsAreFoundFromTheEnd(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	tasks := recordFacts(t, b, 2600)
	c := connectToLedger(t, b)
	early := func(e client.Event) bool { return e.Key == tasks[7] }
	for name, test := range map[string]struct {
		n     int
		query client.Query
		keep  func(client.Event) bool
		want  []uint64
	}{
		"the last":             {3, client.Query{}, nil, []uint64{2598, 2599, 2600}},
		"the last of a noun":   {2, client.Query{Noun: ledger.Task}, nil, []uint64{2599, 2600}},
		"a rare noun":          {2, client.Query{Noun: ledger.Server}, nil, []uint64{1}},
		"one that keep wants":  {1, client.Query{}, early, []uint64{9}},
		"below a sequence":     {2, client.Query{Below: 10}, nil, []uint64{8, 9}},
		"more than there are":  {5, client.Query{Noun: ledger.Server}, nil, []uint64{1}},
		"not before the start": {5, client.Query{From: 2599}, nil, []uint64{2599, 2600}},
	} {
		events, err := c.LastEvents(within(t), test.n, test.query, test.keep)
		var have []uint64
		for _, e := range events {
			have = append(have, e.Sequence)
		}
		if err != nil || !slices.Equal(have, test.want) {
			t.Errorf("%s: %v (%v), want %v", name, have, err, test.want)
		}
	}
}

func TestSequenceAtFindsTheFirstFactSinceATime(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	recordFacts(t, b, 10)
	between := time.Now()
	recordFacts(t, b, 10)
	c := connectToLedger(t, b)
	for at, want := range map[time.Time]uint64{
		time.Unix(0, 0): 1, between: 11, between.Add(time.Hour): 21,
	} {
		if n, err := c.SequenceAt(within(t), at); err != nil || n != want {
			t.Errorf("%v: %d (%v), want %d", at, n, err, want)
		}
	}
}

// follower follows a ledger until the test ends.
type follower struct {
	events chan client.Event
	end    chan error
	stop   func()
}

func follow(t testing.TB, c *client.Client, q client.Query) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	f := &follower{make(chan client.Event), make(chan error, 1), cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range c.Follow(ctx, q) {
			if err != nil {
				f.end <- err
				return
			}
			select {
			case f.events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// reads waits for the facts from one sequence to another, each exactly once.
func (f *follower) reads(t testing.TB, from, to uint64) (last client.Event) {
	t.Helper()
	for want := from; want <= to; want++ {
		select {
		case last = <-f.events:
			if last.Sequence != want {
				t.Fatalf("fact %d, want %d", last.Sequence, want)
			}
		case err := <-f.end:
			t.Fatalf("ended before fact %d: %v", want, err)
		case <-time.After(time.Minute):
			t.Fatalf("fact %d did not come within a minute", want)
		}
	}
	return last
}

func (f *follower) resets(t testing.TB) *client.ResetError {
	t.Helper()
	select {
	case e := <-f.events:
		t.Fatalf("fact %d, want a reset", e.Sequence)
	case err := <-f.end:
		reset, ok := errors.AsType[*client.ResetError](err)
		if !ok {
			t.Fatalf("%v, want a reset", err)
		}
		return reset
	case <-time.After(time.Minute):
		t.Fatal("no reset within a minute")
	}
	return nil
}

func TestFollowYieldsEachFactOnceAcrossRestartsOfTheBus(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	recordFacts(t, b, 3)
	f := follow(t, connectToLedger(t, b), client.Query{})
	f.reads(t, 1, 3)
	for round := uint64(0); round < 3; round++ {
		b.Restart(t, func(string) {})
		recordFacts(t, b, 2)
		f.reads(t, 4+2*round, 5+2*round)
	}
}

func TestFollowResumesBehindAPositionWithoutGapOrDuplicate(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	recordFacts(t, b, 5)
	first := follow(t, connectToLedger(t, b), client.Query{})
	at := first.reads(t, 1, 3).Position()
	first.stop()
	recordFacts(t, b, 2)
	follow(t, connectToLedger(t, b), client.Query{After: at}).reads(t, 4, 7)
	follow(t, connectToLedger(t, b), client.Query{After: client.Position{Sequence: 5}}).reads(t, 6, 7)
	follow(t, connectToLedger(t, b), client.Query{After: at, Noun: ledger.Server}).reads(t, 6, 6)
}

func TestFollowOfANounYieldsOnlyItsFacts(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	recordFacts(t, b, 3)
	f := follow(t, connectToLedger(t, b), client.Query{Noun: ledger.Server})
	f.reads(t, 1, 1)
	recordFacts(t, b, 3)
	f.reads(t, 4, 4)
	b.Restart(t, func(string) {})
	recordFacts(t, b, 1)
	f.reads(t, 7, 7)
}

// setBack restores the ledger of a moment, and records n facts behind it.
func setBack(t testing.TB, b *bustest.Bus, backup string, n int) {
	t.Helper()
	b.Restart(t, func(store string) {
		if err := errors.Join(os.RemoveAll(store), os.CopyFS(store, os.DirFS(backup))); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		recordFacts(t, b, n)
	}
}

func backup(t testing.TB, b *bustest.Bus) (dir string) {
	t.Helper()
	dir = t.TempDir()
	b.Restart(t, func(store string) {
		if err := os.CopyFS(dir, os.DirFS(store)); err != nil {
			t.Fatal(err)
		}
	})
	return dir
}

func TestALedgerThatWasSetBackIsAReset(t *testing.T) {
	t.Parallel()
	for name, grown := range map[string]int{"and is shorter": 0, "and grew beyond": 9} {
		t.Run(name, func(t *testing.T) {
			b := bustest.Start(t)
			recordFacts(t, b, 3)
			kept := backup(t, b)
			recordFacts(t, b, 2)
			f := follow(t, connectToLedger(t, b), client.Query{})
			filtered := follow(t, connectToLedger(t, b), client.Query{Noun: ledger.Server})
			last := f.reads(t, 1, 5)
			filtered.reads(t, 1, 1)
			filtered.reads(t, 4, 4)
			setBack(t, b, kept, grown)
			if r := f.resets(t); r.Last != last.Position() || r.Next != 1 {
				t.Errorf("%+v, want a reset behind fact 5 to the start", r)
			}
			if r := filtered.resets(t); r.Last.Sequence != 4 || r.Next != 1 {
				t.Errorf("%+v, want a reset behind fact 4 to the start", r)
			}
			resumed := follow(t, connectToLedger(t, b), client.Query{After: last.Position()})
			if r := resumed.resets(t); r.Next != 1 {
				t.Errorf("%+v, want a reset of a reader that resumes", r)
			}
		})
	}
}

func TestMissingFactsAreAResetBehindThem(t *testing.T) {
	t.Parallel()
	b := bustest.StartWithoutGuard(t)
	recordFacts(t, b, 9)
	c := connectToLedger(t, b)
	f := follow(t, c, client.Query{})
	f.reads(t, 1, 9)
	b.Delete(t, 4, 5)
	have, err := sequences(t, c, client.Query{})
	reset, ok := errors.AsType[*client.ResetError](err)
	if !ok || reset.Last.Sequence != 3 || reset.Next != 6 || !slices.Equal(have, []uint64{1, 2, 3}) {
		t.Fatalf("%v and %v, want facts 1 to 3 and a reset to 6", have, err)
	}
	if have, err := sequences(t, c, client.Query{From: reset.Next}); err != nil || len(have) != 4 {
		t.Errorf("%v (%v), want facts 6 to 9", have, err)
	}
	if have, err := sequences(t, c, client.Query{Gaps: true}); err != nil || len(have) != 7 {
		t.Errorf("%v (%v), want all seven that are left", have, err)
	}
}

func TestLargeFactsThatDoNotFitIntoOneAnswerAreRead(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	w := b.Writer(t, b.Dial(t, "writer"))
	for range 3 {
		if _, err := w.Append(t.Context(), ledger.Free(ledger.Fact{
			Noun: ledger.Task, Key: ident.New(), ID: ident.New(), At: noon, Source: ledger.Dispatcher, Actor: "x",
			Body: &taskv1.Queued{Agent: strings.Repeat("x", 400<<10)},
		})); err != nil {
			t.Fatal(err)
		}
	}
	have, err := sequences(t, connectToLedger(t, b), client.Query{})
	if err != nil || !slices.Equal(have, []uint64{1, 2, 3}) {
		t.Errorf("%v (%v), want three facts", have, err)
	}
}

func TestAnEventOfAnUnknownKindIsYieldedWithWhatIsKnownOfIt(t *testing.T) {
	t.Parallel()
	b := bustest.StartWithoutGuard(t)
	conn := b.Dial(t, "newer")
	if err := conn.Publish(ledger.FactSubject(ledger.Server, server1, "promoted"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "the fact is stored", func() bool {
		s, err := conn.Stream(t.Context(), "LEDGER")
		return err == nil && s.LastSequence == 1
	})
	events, err := connectToLedger(t, b).LastEvents(within(t), 1, client.Query{}, nil)
	if err != nil || len(events) != 1 {
		t.Fatalf("%v (%v), want the one fact", events, err)
	}
	e := events[0]
	if e.Unread == nil || e.Noun != ledger.Server || e.Key != server1 || e.Sequence != 1 || e.Body != nil {
		t.Errorf("%+v, want noun, key and sequence", e)
	}
}

// lagging is a ledger of three facts. From the first question for the second one on, as many answers come from a
// replica that has the first one only.
func lagging(t *testing.T, conn *bus.Conn, answers int32) {
	t.Helper()
	s, err := conn.NewService(ledger.Registry, "v1.0.0", client.Services[ledger.Registry])
	if err != nil {
		t.Fatal(err)
	}
	var late atomic.Int32
	answer(t, s, "ReadFacts", func(q *registryv1.ReadFactsRequest) (*registryv1.ReadFactsResponse, error) {
		end := uint64(3)
		if q.GetFrom() < 2 {
			end = 2
		} else if late.Add(1) <= answers {
			end = 1
		}
		out := &registryv1.ReadFactsResponse{End: end}
		for n := max(q.GetFrom(), 1); n <= end; n++ {
			out.Facts = append(out.Facts, &registryv1.StoredFact{Sequence: n})
		}
		return out, nil
	})
}

func TestAReplicaThatLagsBehindIsNoResetOnABusOfSeveralServers(t *testing.T) {
	t.Parallel()
	const answers = 8 // two seconds of them
	cluster := bustest.StartCluster(t)
	lagging(t, cluster.Dial(t, "registry"), answers)
	f := follow(t, client.New(cluster.Dial(t, "ann"), 0), client.Query{})
	f.reads(t, 1, 3)

	alone := bustest.Start(t)
	lagging(t, alone.Dial(t, "registry"), answers)
	f = follow(t, connect(t, alone), client.Query{})
	f.reads(t, 1, 2)
	if r := f.resets(t); r.Last.Sequence != 2 {
		t.Errorf("%+v, want a reset behind fact 2", r)
	}
}
