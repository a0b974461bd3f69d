package link

import (
	"context"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// replicas answer one reading after another; the last one answers all further ones. The generation of a document is
// its sequence, and 0 is no document.
type replicas struct {
	sequences []uint64
	reads     int
	offered   []uint64
}

func (r *replicas) get(context.Context) (*desiredv1.Document, uint64, error) {
	sequence := r.sequences[min(r.reads, len(r.sequences)-1)]
	r.reads++
	switch sequence {
	case 0:
		return nil, 0, nil
	case broken:
		return nil, 0, fault.New(fault.Unavailable, "no replica answers")
	}
	return &desiredv1.Document{Generation: sequence}, sequence, nil
}

func (r *replicas) offer(d *desiredv1.Document) { r.offered = append(r.offered, d.GetGeneration()) }

func (r *replicas) reading(pace *rate.Limiter) *reading {
	return &reading{pace: pace, get: r.get, offer: r.offer, decode: func(m bus.Message) (*desiredv1.Document, error) {
		return decode(m, topology.ServerAddress{Cell: "main", Server: "mine"})
	}}
}

// bell is one that carries a document of a server, whose generation is its sequence.
func bell(t *testing.T, server string, sequence uint64) bus.Message {
	t.Helper()
	data, err := proto.Marshal(&desiredv1.Document{ServerId: server, Cell: "main", Generation: sequence})
	if err != nil {
		t.Fatal(err)
	}
	return bus.Message{Data: data, Header: map[string][]string{
		"Nats-Subject": {"my document"}, "Nats-Sequence": {strconv.FormatUint(sequence, 10)},
	}}
}

// without returns a bell that announces a document and does not carry it.
func without(m bus.Message) bus.Message {
	m.Data = nil
	return m
}

func TestADocumentThatComesWithItsBellIsNotRead(t *testing.T) {
	b := func(n uint64) bus.Message { return bell(t, "mine", n) }
	damaged := bus.Message{Data: []byte("x"), Header: b(9).Header}
	for name, c := range map[string]struct {
		last    uint64 // offered before
		bells   []bus.Message
		reads   int
		offered []uint64
	}{
		"a bell with its document":             {3, []bus.Message{b(7)}, 0, []uint64{7}},
		"several":                              {3, []bus.Message{b(7), b(8)}, 0, []uint64{8}},
		"several in another order":             {3, []bus.Message{b(8), b(7)}, 0, []uint64{8}},
		"a later one without its document":     {3, []bus.Message{b(7), without(b(9))}, 1, []uint64{9}},
		"one without its document":             {3, []bus.Message{without(b(9))}, 1, []uint64{9}},
		"no bell":                              {3, nil, 1, []uint64{9}},
		"one that was read already":            {9, []bus.Message{b(9)}, 1, []uint64{9}},
		"an older one than what was read":      {9, []bus.Message{b(7)}, 1, []uint64{9}},
		"one with another server's document":   {3, []bus.Message{bell(t, "another", 9)}, 1, []uint64{9}},
		"one whose document cannot be decoded": {3, []bus.Message{damaged}, 1, []uint64{9}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &replicas{sequences: []uint64{9}}
			reading := r.reading(rate.NewLimiter(readsASecond, readsAtOnce))
			reading.last = c.last
			var bells rung
			for _, m := range c.bells {
				bells.note(m, "my document")
			}
			old, err := reading.next(t.Context(), &bells)
			if err != nil || old || r.reads != c.reads || !slices.Equal(r.offered, c.offered) {
				t.Errorf("old %v, %d reads, offered %v, %v; want %d, %v",
					old, r.reads, r.offered, err, c.reads, c.offered)
			}
			if newest, m := bells.take(); newest != 0 || m.Sequence != 0 {
				t.Errorf("%d and %d are announced still", newest, m.Sequence)
			}
		})
	}
}

const broken = math.MaxUint64

func TestADocumentOlderThanItsBellIsReadAgain(t *testing.T) {
	for name, c := range map[string]struct {
		announced uint64
		answers   []uint64
		reads     int
		offered   []uint64
		old       bool
	}{
		"fresh at once":               {7, []uint64{7}, 1, []uint64{7}, false},
		"newer than announced":        {7, []uint64{9}, 1, []uint64{9}, false},
		"stale once":                  {7, []uint64{5, 7}, 2, []uint64{5, 7}, false},
		"stale four times":            {7, []uint64{5, 5, 5, 6, 7}, 5, []uint64{5, 6, 7}, false},
		"the first of a server":       {7, []uint64{0, 0, 7}, 3, []uint64{7}, false},
		"stale for longer":            {7, []uint64{5}, 5, []uint64{5}, true},
		"a number beyond the stream":  {math.MaxUint64, []uint64{5}, 5, []uint64{5}, true},
		"a bell without a number":     {0, []uint64{5, 7}, 1, []uint64{5}, false},
		"a stream that was set back":  {2, []uint64{2}, 1, []uint64{2}, false},
		"no document and no number":   {0, []uint64{0}, 1, nil, false},
		"a forged bell hides nothing": {math.MaxUint64, []uint64{5, 6}, 5, []uint64{5, 6}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &replicas{sequences: c.answers}
			old, err := r.reading(rate.NewLimiter(readsASecond, readsAtOnce)).once(t.Context(), c.announced)
			if err != nil || old != c.old || r.reads != c.reads || !slices.Equal(r.offered, c.offered) {
				t.Errorf("old %v, %d reads, offered %v, %v; want %v, %d, %v",
					old, r.reads, r.offered, err, c.old, c.reads, c.offered)
			}
		})
	}
}

// Others can ring a server's bell with any number, so reading again must not cost more than the pace of all readings.
func TestReadingAgainWaitsForThePace(t *testing.T) {
	t.Parallel()
	const left = 3
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := &replicas{sequences: []uint64{5}}
	_, err := r.reading(rate.NewLimiter(rate.Every(time.Hour), left)).once(ctx, math.MaxUint64)
	if err == nil || r.reads != 1+left {
		t.Errorf("%d reads, %v; want %d, and no more before the pace allows it", r.reads, err, 1+left)
	}
}

func TestReadingAgainEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	r := &replicas{sequences: []uint64{5, broken}}
	_, err := r.reading(rate.NewLimiter(readsASecond, readsAtOnce)).once(t.Context(), 7)
	if !fault.Is(err, fault.Unavailable) || r.reads != 2 {
		t.Errorf("%d reads, %v; want 2 and an error", r.reads, err)
	}
}
