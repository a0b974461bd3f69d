package link_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
)

var here = topology.ServerAddress{Cell: "main", Server: "0197b5a0-0000-7000-8000-000000000001"}

// room is the other side of the door.
type room struct {
	mu      sync.Mutex
	offered []*desiredv1.Document
	waiting []link.Report
	news    chan struct{}
	code    string // of the beats
}

func (r *room) Offer(d *desiredv1.Document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offered = append(r.offered, d)
}

func (r *room) Waiting(n int) ([]link.Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]link.Report{}, r.waiting[:min(n, len(r.waiting))]...), nil
}

func (r *room) Acknowledge(sequence uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[0].Sequence == sequence {
		r.waiting = r.waiting[1:]
	}
	return nil
}

func (r *room) say(report link.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, report)
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func (r *room) News() <-chan struct{} { return r.news }

func (r *room) Beat() (link.Pulse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return link.Pulse{Place: lineage.Position{Generation: 7}, Outbox: 1, Code: r.code}, nil
}

// fail sets the code that beats say.
func (r *room) fail(code string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.code = code
}

// count returns how often a document was offered.
func (r *room) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.offered)
}

func (r *room) last() *desiredv1.Document {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.offered) == 0 {
		return nil
	}
	return r.offered[len(r.offered)-1]
}

type stand struct {
	b    *bustest.Bus
	conn *bus.Conn // another's
	room *room
	link *link.Link
	root layout.Root

	catalog func() // stops it
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{b: bustest.Start(t), room: &room{news: make(chan struct{}, 1)}, root: layout.Root(t.TempDir())}
	s.conn = s.b.Dial(t, "dispatcher")
	s.catalog = bustest.ServeChunks(t, s.b.Dial(t, "image-catalog"))
	s.link = link.New(link.Config{
		Conn: s.b.Dial(t, here.Server), Address: here, BootID: "boot", Version: "v", Root: s.root, Backend: s.room,
		PollInterval: time.Hour, BeatInterval: 10 * time.Millisecond, Log: zerolog.Nop(),
	})
	return s
}

func (s *stand) store(t *testing.T, subject string, m proto.Message) {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.conn.PublishDurable(context.Background(), bus.Durable{Subject: subject, Data: data}); err != nil {
		t.Fatal(err)
	}
}

func TestADocumentIsReadAtTheStartAndWhenItsBellRings(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	doc := &desiredv1.Document{ServerId: here.Server, Cell: here.Cell, Generation: 1}
	s.store(t, topology.DesiredSubject(here), doc)
	bustest.Go(t, s.link.Run)
	polltest.Eventually(t, "the first is offered", func() bool { return s.room.last().GetGeneration() == 1 })
	doc.Generation = 2
	s.store(t, topology.DesiredSubject(here), doc)
	polltest.Eventually(t, "the second is offered", func() bool { return s.room.last().GetGeneration() == 2 })
}

// Another server can have its own document delivered to this one's bell, as the answer to its reading.
func TestAnotherServersDocumentOnTheBellIsNotHandedOn(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	mine := func(generation uint64) *desiredv1.Document {
		return &desiredv1.Document{ServerId: here.Server, Cell: here.Cell, Generation: generation}
	}
	other := topology.ServerAddress{Cell: here.Cell, Server: "0197b5a0-0000-7000-8000-000000000002"}
	bustest.Go(t, s.link.Run)
	s.store(t, topology.DesiredSubject(here), mine(1))
	polltest.Eventually(t, "its own is offered", func() bool { return s.room.last().GetGeneration() == 1 })
	s.store(t, topology.DesiredSubject(other), mine(9)) // later than its own; no dispatcher writes that there
	heard := make(chan bool, 1)
	stop, err := s.conn.Subscribe(topology.BellSubject(here), func(bus.Message) { heard <- true })
	if err != nil {
		t.Fatal(err)
	}
	s.b.PublishRequest(t, topology.CoreAPI+".DIRECT.GET."+topology.Desired+"."+topology.DesiredSubject(other),
		topology.BellSubject(here))
	select {
	case <-heard:
	case <-time.After(time.Minute):
		t.Fatal("the answer did not come to the bell")
	}
	stop()
	s.store(t, topology.DesiredSubject(here), mine(2))
	polltest.Eventually(t, "its own is offered", func() bool { return s.room.last().GetGeneration() == 2 })
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	for _, d := range s.room.offered {
		if d.GetGeneration() == 9 {
			t.Errorf("offered %v", d)
		}
	}
}

// The number of a bell is the document's sequence, which the stream adds when it rings.
func TestABellAnnouncesTheSequenceOfItsDocument(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	rung := make(chan uint64, 1)
	stop, err := s.conn.Subscribe(topology.BellSubject(here), func(m bus.Message) { rung <- m.Announced() })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	sequence, err := s.conn.PublishDurable(t.Context(), bus.Durable{Subject: topology.DesiredSubject(here)})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case announced := <-rung:
		if announced != sequence {
			t.Errorf("the bell announces %d; the document is at %d", announced, sequence)
		}
	case <-time.After(time.Minute):
		t.Fatal("the bell does not ring")
	}
}

// A server's bell can be rung by others, so it must not cost more than its pace.
func TestABellThatNeverStopsCostsNoMoreThanItsPace(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.store(t, topology.DesiredSubject(here),
		&desiredv1.Document{ServerId: here.Server, Cell: here.Cell, Generation: 1})
	bustest.Go(t, s.link.Run)
	polltest.Eventually(t, "the document is offered", func() bool { return s.room.last() != nil })
	started := time.Now()
	const least = 5
	offered := func() int {
		s.room.mu.Lock()
		defer s.room.mu.Unlock()
		return len(s.room.offered)
	}
	for time.Since(started) < time.Second || offered() < least && time.Since(started) < 20*time.Second {
		if err := s.conn.Publish(topology.BellSubject(here), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // the ringer's pace, so that rings are not one
	}
	reads := offered()
	if most := 10 + 2*int(time.Since(started).Seconds()+1); reads > most || reads < least {
		t.Errorf("%d reads, want %d to %d", reads, least, most)
	}
}

func TestAnotherServersDocumentIsNotHandedOn(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	bustest.Go(t, s.link.Run)
	s.store(t, topology.DesiredSubject(here), &desiredv1.Document{ServerId: "another", Cell: here.Cell, Generation: 9})
	s.store(t, topology.DesiredSubject(here),
		&desiredv1.Document{ServerId: here.Server, Cell: here.Cell, Generation: 10})
	polltest.Eventually(t, "its own is offered", func() bool { return s.room.last().GetGeneration() == 10 })
	for _, d := range s.room.offered {
		if d.GetServerId() != here.Server {
			t.Errorf("offered %v", d)
		}
	}
}

func TestReportsArriveInOrderAndLeaveTheOutbox(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	for n := range uint64(50) {
		data, _ := proto.Marshal(&reportv1.Report{Sequence: n + 1})
		s.room.waiting = append(s.room.waiting, link.Report{Sequence: n + 1, Kind: topology.ReportTask, Data: data})
	}
	bustest.Go(t, s.link.Run)
	polltest.Eventually(t, "the outbox is empty", func() bool {
		w, _ := s.room.Waiting(1)
		return len(w) == 0
	})
	stored, err := s.conn.DirectGet(context.Background(), topology.DeadLetter, topology.DeadLetterSubject("x", "y"))
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("dead letters: %v, %v", stored, err)
	}
	end, err := s.conn.Stream(context.Background(), topology.Reports)
	if err != nil || end.LastSequence != 50 {
		t.Errorf("the stream ends at %d, %v", end.LastSequence, err)
	}
}

// A bus on a single server acknowledges reports before they are on its disk. What it
// forgot is said again when it is back, in order and before anything newer. What it did
// not forget is there twice: reports have no message id.
func TestWhatTheBusForgotIsSaidAgain(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	kinds := []string{
		topology.ReportTask,
		topology.ReportAgents,
		topology.ReportTask,
		topology.ReportAgents,
		topology.ReportReceipt,
	}
	say := func(from, to int) {
		for n := from; n <= to; n++ {
			data, _ := proto.Marshal(&reportv1.Report{Sequence: uint64(n)})
			s.room.say(link.Report{Sequence: uint64(n), Kind: kinds[(n-1)%len(kinds)], Data: data})
		}
		polltest.Eventually(t, "the outbox is empty", func() bool {
			w, _ := s.room.Waiting(1)
			return len(w) == 0
		})
	}
	bustest.Go(t, s.link.Run)
	say(1, 1)
	s.b.Forget(t, topology.Reports, func() { say(2, 5) })
	polltest.Eventually(t, "what was forgotten is there again", func() bool { return len(s.reports(t)) >= 5 })
	say(6, 6)
	if have, want := s.reports(t), []uint64{1, 1, 3, 4, 5, 6}; !slices.Equal(have, want) {
		t.Errorf("the stream has %v, want %v: of what was found the last", have, want)
	}
}

// reports returns the numbers of the reports that are stored, in the order of the stream.
func (s *stand) reports(t *testing.T) (numbers []uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stored, err := s.conn.DirectGetFrom(ctx, topology.Reports, topology.ReportSubjects, 1, 100)
	if err != nil {
		return nil // the bus is on its way back
	}
	for _, m := range stored {
		r := &reportv1.Report{}
		if err := bus.Unmarshal(m, r); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, r.GetSequence())
	}
	return numbers
}

func TestBeatsSayWhereTheServerIs(t *testing.T) {
	t.Parallel()
	s, began := newStand(t), time.Now()
	beats := make(chan *reportv1.Beat, 100)
	stop, err := s.conn.Subscribe(topology.BeatSubject(here), func(m bus.Message) {
		b := &reportv1.Beat{}
		if bus.Unmarshal(m, b) == nil {
			select {
			case beats <- b:
			default:
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	bustest.Go(t, s.link.Run)
	select {
	case b := <-beats:
		if b.GetDocumentGeneration() != 7 || b.GetOutboxLength() != 1 || b.GetBootId() != "boot" {
			t.Errorf("beat %v", b)
		}
		if sent := b.GetSentAt().AsTime(); sent.Before(began) || sent.After(time.Now()) {
			t.Errorf("a beat says that it was sent at %v", sent)
		}
	case <-time.After(time.Minute):
		t.Fatal("no beat came")
	}
}
