package facts_test

import (
	"bytes"
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

type request = registryv1.ReadFactsRequest

const web1 = "01900000-0000-7000-8000-000000000001"

// ask returns a function that reads the ledger of a bus as ann.
func ask(t *testing.T, b *bustest.Bus) func(*request) (*registryv1.ReadFactsResponse, error) {
	t.Helper()
	conn := b.Dial(t, ledger.Registry)
	s, err := conn.NewService(ledger.Registry, "v1.0.0", client.Services[ledger.Registry])
	if err != nil {
		t.Fatal(err)
	}
	if err := facts.Serve(s, conn); err != nil {
		t.Fatal(err)
	}
	ann := b.Dial(t, "ann")
	method := client.Services[ledger.Registry].Methods().ByName("ReadFacts")
	return func(q *request) (*registryv1.ReadFactsResponse, error) {
		return bus.Call[*registryv1.ReadFactsResponse](t.Context(), ann, ledger.Registry, method, q)
	}
}

// record appends facts, each by itself.
func record(t *testing.T, b *bustest.Bus, all ...ledger.Fact) {
	t.Helper()
	w := b.Writer(t, b.Dial(t, "writer-"+ident.New()))
	for _, f := range all {
		f.ID, f.At, f.Actor, f.Source = ident.New(), time.Now(), "bob", f.Noun.Writer()
		if _, err := w.Append(t.Context(), ledger.Free(f)); err != nil {
			t.Fatal(err)
		}
	}
}

func sequences(r *registryv1.ReadFactsResponse) (out []uint64) {
	for _, f := range r.GetFacts() {
		out = append(out, f.GetSequence())
	}
	return out
}

func TestAReadAnswersWhatItsFilterMeans(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	record(t, b,
		ledger.Fact{Noun: ledger.Server, Key: web1, Body: &serverv1.Online{}},
		ledger.Fact{Noun: ledger.Instance, Key: ledger.Key(web1, "beacon"), Body: &instancev1.Wanted{Generation: 1}},
		ledger.Fact{Noun: ledger.Instance, Key: ledger.Key(web1, "beacon"), Body: &instancev1.Gone{}})
	between := time.Now()
	record(t, b,
		ledger.Fact{Noun: ledger.Task, Key: ident.New(), Body: &taskv1.Started{}},
		ledger.Fact{Noun: ledger.Server, Key: web1, Body: &serverv1.Offline{}})
	read := ask(t, b)
	for name, c := range map[string]struct {
		q    *request
		want []uint64
		next uint64
	}{
		"all":                      {&request{}, []uint64{1, 2, 3, 4, 5}, 0},
		"two":                      {&request{Limit: 2}, []uint64{1, 2}, 3},
		"the next two":             {&request{From: 3, Limit: 2}, []uint64{3, 4}, 5},
		"below":                    {&request{From: 2, Below: 4}, []uint64{2, 3}, 0},
		"behind the end":           {&request{From: 9}, nil, 0},
		"since":                    {&request{Since: timestamppb.New(between)}, []uint64{4, 5}, 0},
		"since and from":           {&request{Since: timestamppb.New(between), From: 5}, []uint64{5}, 0},
		"since a time to come":     {&request{Since: timestamppb.New(between.Add(time.Hour))}, nil, 0},
		"a noun":                   {&request{Noun: "server"}, []uint64{1, 5}, 0},
		"one of a noun":            {&request{Noun: "server", Limit: 1}, []uint64{1}, 2},
		"a server with instances":  {&request{Key: web1}, []uint64{1, 2, 3, 5}, 0},
		"a key of a noun":          {&request{Noun: "instance", Key: web1}, []uint64{2, 3}, 0},
		"a kind":                   {&request{Noun: "instance", Kind: "gone"}, []uint64{3}, 0},
		"a noun below":             {&request{Noun: "server", Below: 5}, []uint64{1}, 0},
		"a noun far below":         {&request{Noun: "server", Below: 1 << 40}, []uint64{1, 5}, 0},
		"one of a noun below":      {&request{Noun: "server", Below: 6, Limit: 1}, []uint64{1}, 5},
		"no more of a noun below":  {&request{Noun: "server", From: 2, Below: 5}, nil, 0},
		"a kind of a key below":    {&request{Noun: "instance", Kind: "gone", Key: web1, Below: 6}, []uint64{3}, 0},
		"a kind of a key":          {&request{Noun: "server", Kind: "offline", Key: web1}, []uint64{5}, 0},
		"a kind of a part of keys": {&request{Noun: "instance", Kind: "gone", Key: web1}, []uint64{3}, 0},
	} {
		r, err := read(c.q)
		if err != nil || !slices.Equal(sequences(r), c.want) || r.GetNext() != c.next || r.GetEnd() != 5 {
			t.Errorf("%s: %v, next %d, end %d (%v), want %v, %d, 5",
				name, sequences(r), r.GetNext(), r.GetEnd(), err, c.want, c.next)
		}
	}
}

// A range that is read whole has more parts than what it means: none may be left out, and none comes twice.
func TestAShortRangeIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	var all []ledger.Fact
	var want []uint64
	for n := range facts.MostFacts + 20 {
		f := ledger.Fact{Noun: ledger.Task, Key: ident.New(), Body: &taskv1.Started{}}
		if n%(facts.MostFacts/2) == 3 || n > facts.MostFacts+10 {
			f = ledger.Fact{Noun: ledger.Server, Key: web1, Body: &serverv1.Online{}}
			want = append(want, uint64(n+1))
		}
		all = append(all, f)
	}
	record(t, b, all...)
	read := ask(t, b)
	for _, limit := range []uint32{1, 2, facts.MostFacts} {
		var have []uint64
		for from := uint64(1); from > 0; {
			r, err := read(&request{Noun: "server", From: from, Below: uint64(len(all)) + 1, Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			have, from = append(have, sequences(r)...), r.GetNext()
		}
		if !slices.Equal(have, want) {
			t.Errorf("in parts of %d: %v, want %v", limit, have, want)
		}
	}
}

func TestAReadRefusesPatternsAndLargeParts(t *testing.T) {
	t.Parallel()
	read := ask(t, bustest.Start(t))
	for _, q := range []*request{
		{Noun: "*"}, {Noun: ">"}, {Noun: "server.>"}, {Noun: "sever"}, {Key: "*"}, {Key: "a.>"}, {Key: ">"},
		{Key: "a..b"}, {Key: "a b"}, {Key: "."}, {Kind: "online"}, {Noun: "server", Kind: ">"},
		{Noun: "server", Kind: "*"},
		{Noun: "task", Kind: "online"},
		{Limit: facts.MostFacts + 1},
	} {
		if _, err := read(q); fault.RefusalOf(err).GetCode() != code.Invalid {
			t.Errorf("%v: %v, want %s", q, err, code.Invalid)
		}
	}
}

func TestAnAnswerHasABoundInBytesAndNamesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	large := func(n int) ledger.Fact {
		return ledger.Fact{Noun: ledger.Server, Key: web1, Body: &serverv1.Online{
			BootId: string(bytes.Repeat([]byte("x"), n)),
		}}
	}
	record(t, b, large(200<<10), large(200<<10), large(200<<10), large(900<<10), large(1))
	read := ask(t, b)
	for _, q := range []*request{{}, {Noun: "server"}, {Noun: "server", Below: 6}} {
		readsInParts(t, read, q)
	}
}

// readsInParts reads five facts, the fourth of which is too large for an answer.
func readsInParts(t *testing.T, read func(*request) (*registryv1.ReadFactsResponse, error), q *request) {
	t.Helper()
	var have []uint64
	for from := uint64(1); from > 0; {
		q.From = from
		r, err := read(q)
		if err != nil {
			t.Fatal(err)
		}
		if n := proto.Size(r); n > facts.MostBytes+1000 {
			t.Errorf("an answer from %d on has %d bytes", from, n)
		}
		for _, f := range r.GetFacts() {
			if left := f.GetLeftOutBytes(); (left > 0) != (f.GetSequence() == 4) {
				t.Errorf("%d bytes of fact %d are left out", left, f.GetSequence())
			}
		}
		have, from = append(have, sequences(r)...), r.GetNext()
	}
	if !slices.Equal(have, []uint64{1, 2, 3, 4, 5}) {
		t.Errorf("read %v, want each fact once", have)
	}
}

func TestAFactOfAnUnknownTypeKeepsItsBody(t *testing.T) {
	t.Parallel()
	b := bustest.StartWithoutGuard(t)
	conn := b.Dial(t, "newer")
	subject := ledger.FactSubject(ledger.Server, web1, "promoted")
	if _, err := conn.PublishDurable(t.Context(), bus.Durable{Subject: subject, Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	r, err := ask(t, b)(&request{})
	if err != nil || len(r.GetFacts()) != 1 || string(r.GetFacts()[0].GetUnknownBody()) != "x" {
		t.Errorf("%v (%v), want the body as it is stored", r, err)
	}
}

func TestTheHeadersOfTheBusAreNotPartOfAFact(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	record(t, b, ledger.Fact{Noun: ledger.Server, Key: web1, Body: &serverv1.Online{}, Request: "r"})
	r, err := ask(t, b)(&request{})
	if err != nil || len(r.GetFacts()) != 1 {
		t.Fatal(r, err)
	}
	h := r.GetFacts()[0].GetHeaders()
	for name := range h {
		if name[:3] != "ce-" && name[:3] != "Gar" {
			t.Errorf("header %s", name)
		}
	}
	if h["Garrison-Actor"] != "bob" || h["Garrison-Request"] != "r" || h["ce-type"] != "garrison.server.v1.Online" {
		t.Errorf("%v lacks the fact's own headers", h)
	}
}

// Many reads at once are refused with a time, and a client that waits reads everything.
func TestReadsBeyondTheLimitAreRefusedAndRetried(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	var all []ledger.Fact
	for range 40 {
		all = append(all, ledger.Fact{Noun: ledger.Server, Key: web1, Body: &serverv1.Online{
			BootId: string(bytes.Repeat([]byte("x"), 10<<10)),
		}})
	}
	record(t, b, all...)
	read := ask(t, b)
	const at = 64
	results := make(chan error, at)
	for range at {
		go func() {
			_, err := read(&request{Limit: facts.MostFacts})
			results <- err
		}()
	}
	refused := 0
	for range at {
		err := <-results
		if r := fault.RefusalOf(err); r.GetCode() == "BUSY" && r.GetRetryAfterMs() > 0 {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	if refused == 0 || refused == at {
		t.Errorf("%d of %d reads at once were refused", refused, at)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := client.New(b.Dial(t, "cleo"), 10*time.Second)
	ended := make(chan error, 8)
	for range cap(ended) {
		go func() {
			n := 0
			for _, err := range c.Events(ctx, client.Query{}) {
				if err != nil {
					ended <- err
					return
				}
				n++
			}
			if n != len(all) {
				t.Errorf("read %d facts, want %d", n, len(all))
			}
			ended <- nil
		}()
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A client that asks for the facts since a time, and gets none, continues behind the end of the answer. While facts are
// recorded, that end must not pass one that is as new.
func TestTheEndOfAnAnswerPassesNoFactOfTheTimeAsked(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	read := ask(t, b)
	w := b.Writer(t, b.Dial(t, "writer"))
	bustest.Go(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			_, _ = w.Append(ctx, ledger.Free(ledger.Fact{
				Noun: ledger.Server, Key: web1, Body: &serverv1.Online{}, ID: ident.New(), At: time.Now(),
				Actor: "bob", Source: ledger.Server.Writer(),
			}))
		}
		return nil
	})
	empty := 0
	for n := range 400 {
		since := time.Now().Add(time.Duration(n%20) * 100 * time.Microsecond)
		answer, err := read(&request{Since: timestamppb.New(since), Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.Facts) > 0 || answer.End == 0 {
			continue
		}
		empty++
		end, err := read(&request{From: answer.End, Limit: 1})
		if err != nil || len(end.Facts) != 1 {
			t.Fatalf("read fact %d: %v, %v", answer.End, end, err)
		}
		if stored := end.Facts[0].StoredAt.AsTime(); !stored.Before(since) {
			t.Fatalf("no fact since %v and the end at %d, which was stored at %v", since, answer.End, stored)
		}
	}
	if _, err := read(&request{Since: timestamppb.New(time.Unix(math.MaxInt32, 0)), Limit: 1}); err != nil {
		t.Error(err)
	}
	t.Logf("%d answers were empty", empty)
}
