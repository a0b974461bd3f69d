package bus_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// following replays the ledger of a bus without accounts, where a test can announce what it likes.
type following struct {
	*testing.T
	bus  *bustest.Bus
	conn *bus.Conn
	raw  *nats.Conn
	got  chan bus.Message
}

func newFollowing(t *testing.T) *following {
	b := bustest.Start(t)
	raw, err := nats.Connect("", nats.Timeout(time.Minute), nats.InProcessServer(b))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	return &following{T: t, bus: b, conn: b.Dial(t, "test"), raw: raw, got: make(chan bus.Message, 100)}
}

// begin replays from the start and returns when the end was reached and the fact at it was taken.
func (f *following) begin(end uint64) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- f.conn.Replay(ctx, topology.Ledger, 1, func(msgs []bus.Message) error {
			for _, m := range msgs {
				f.got <- m
			}
			return nil
		})
	}()
	f.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.Errorf("replay: %v", err)
		}
	})
	for n := uint64(1); n <= end; n++ {
		f.takes(n, strconv.FormatUint(n, 10))
	}
}

func (f *following) store(body string) {
	f.Helper()
	if err := f.conn.Publish(ledger.FactSubject(ledger.Server, "s", "online"), []byte(body)); err != nil {
		f.Fatal(err)
	}
}

// announce announces a message that may not be stored, until it is taken or stop is closed.
func (f *following) announce(sequence uint64, body string, headers ...string) (stop func()) {
	f.Helper()
	m := announcement(sequence, body, headers...)
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil { // a replay listens from a moment after it has reached the end
			_ = f.raw.PublishMsg(m)
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() { cancel(); <-done }
}

// announcement returns what the ledger announces of a message.
func announcement(sequence uint64, body string, headers ...string) *nats.Msg {
	at := strings.TrimSuffix(topology.TailSubject, ">") + "s"
	m := &nats.Msg{Subject: at, Data: []byte(body), Header: nats.Header{
		"Nats-Sequence":   {strconv.FormatUint(sequence, 10)},
		"Nats-Subject":    {ledger.FactSubject(ledger.Server, "s", "online")},
		"Nats-Time-Stamp": {time.Now().Format(time.RFC3339Nano)},
	}}
	for i := 0; i+1 < len(headers); i += 2 {
		m.Header.Set(headers[i], headers[i+1])
	}
	return m
}

// takes waits for the next message.
func (f *following) takes(sequence uint64, body string) {
	f.Helper()
	select {
	case m := <-f.got:
		if m.Sequence != sequence || string(m.Data) != body || m.Time.IsZero() ||
			m.Subject != ledger.FactSubject(ledger.Server, "s", "online") {
			f.Fatalf("took %d %q of %s, want %d %q", m.Sequence, m.Data, m.Subject, sequence, body)
		}
	case <-time.After(time.Minute):
		f.Fatalf("did not take message %d", sequence)
	}
}

func TestAFollowerTakesTheNextFactFromItsAnnouncement(t *testing.T) {
	t.Parallel()
	f := newFollowing(t)
	f.store("1")
	f.begin(1)
	stop := f.announce(2, "only announced")
	f.takes(2, "only announced")
	stop()
}

func TestAFollowerReadsWhereAnAnnouncementIsMissingOrHasNoBody(t *testing.T) {
	t.Parallel()
	f := newFollowing(t)
	f.store("1")
	f.begin(1)
	for what, stop := range map[string]func(){
		"one of a later message":    f.announce(5, "too early"),
		"one of an earlier message": f.announce(1, "too late"),
		"one without its body":      f.announce(2, "", "Nats-Msg-Size", "7"),
	} {
		t.Log(what)
		defer stop()
	}
	f.store("2")
	f.takes(2, "2")
}

// A site that an earlier version set up announces headers only until it is provisioned again.
func TestAFollowerReadsTheLedgerOfABusThatAnnouncesHeadersOnly(t *testing.T) {
	t.Parallel()
	f := newFollowing(t)
	js, err := jetstream.New(f.raw)
	if err != nil {
		t.Fatal(err)
	}
	old, _ := topology.StreamNamed(1, topology.Ledger)
	old.RePublish.HeadersOnly = true
	if _, err := js.UpdateStream(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	f.store("1")
	f.begin(1)
	for n := uint64(2); n < 10; n++ {
		f.store(strconv.FormatUint(n, 10))
		f.takes(n, strconv.FormatUint(n, 10))
	}
}

// What one service of a process hears, all hear: the other accounts of the bus then carry no announcement of their own.
func TestReplaysOfOneProcessShareTheAnnouncements(t *testing.T) {
	t.Parallel()
	f := newFollowing(t)
	carrier := f.conn
	tail, err := carrier.NewTail()
	if err != nil {
		t.Fatal(err)
	}
	first, second := f.sharing(tail), f.sharing(tail)
	f.store("1")
	first.begin(1)
	second.begin(1)
	stop := f.announce(2, "only announced")
	first.takes(2, "only announced")
	second.takes(2, "only announced")
	stop()

	carrier.Close() // a replay reads what is no longer announced
	f.conn = f.sharing(nil).conn
	for _, body := range []string{"2", "3"} {
		f.store(body)
	}
	first.takes(3, "3")
	second.takes(3, "3")
}

// sharing returns a replay on a connection of its own to the same bus.
func (f *following) sharing(tail *bus.Tail) *following {
	f.Helper()
	c, err := bus.Dial(bus.Options{InProcess: f.bus, Name: "sharing", Tail: tail, Log: zerolog.Nop()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	return &following{T: f.T, bus: f.bus, conn: c, raw: f.raw, got: make(chan bus.Message, 100)}
}

// A fold holds several chunks, and is not read while it applies one.
func TestAnnouncementsThatWaitedAreHandedOnInChunks(t *testing.T) {
	t.Parallel()
	const many, most = 1500, 512
	f := newFollowing(t)
	f.store("1")
	ctx, cancel := context.WithCancel(t.Context())
	entered, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var sizes []int
	next := uint64(1)
	go func() {
		ended <- f.conn.Replay(ctx, topology.Ledger, 1, func(msgs []bus.Message) error {
			if sizes = append(sizes, len(msgs)); next == 2 {
				close(entered)
				<-release
			}
			for _, m := range msgs {
				if m.Sequence != next {
					t.Errorf("took %d, want %d", m.Sequence, next)
				}
				next++
			}
			if next > many {
				cancel()
			}
			return nil
		})
	}()
	stop := f.announce(2, "x")
	<-entered
	stop()
	for n := uint64(3); n <= many; n++ {
		if err := f.raw.PublishMsg(announcement(n, "x")); err != nil {
			t.Fatal(err)
		}
	}
	heard := make(chan struct{})
	if _, err := f.conn.Subscribe("marker", func(bus.Message) { close(heard) }); err != nil {
		t.Fatal(err)
	}
	if err := f.raw.Publish("marker", nil); err != nil {
		t.Fatal(err)
	}
	<-heard
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if largest := slices.Max(sizes); largest > most || next != many+1 {
		t.Errorf("took messages up to %d, in chunks of up to %d; want %d, of up to %d", next-1, largest, many, most)
	}
}

// A replay tries again for as long as the bus does not answer.
func TestATailThatTheBusDoesNotConfirmLeavesNoSubscription(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := b.Dial(t, "test")
	b.Restart(t, func(string) {
		if _, err := c.NewTail(); err == nil {
			t.Error("there is a tail without a bus")
		}
		if n := c.Subscriptions(); n != 0 {
			t.Errorf("%d subscriptions are left, want none", n)
		}
	})
}
