package link_test

import (
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
)

// beaten are the beats of a server, as the registry receives them.
type beaten struct {
	mu  sync.Mutex
	all []*reportv1.Beat
}

func hearBeats(t *testing.T, conn *bus.Conn) *beaten {
	t.Helper()
	b := &beaten{}
	stop, err := conn.Subscribe(topology.BeatSubject(here), func(m bus.Message) {
		beat := &reportv1.Beat{}
		if err := bus.Unmarshal(m, beat); err != nil {
			t.Error(err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.all = append(b.all, beat)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return b
}

func (b *beaten) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

func (b *beaten) last() *reportv1.Beat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[len(b.all)-1]
}

func (s *stand) ask(t *testing.T, server string, every time.Duration) {
	t.Helper()
	data, err := proto.Marshal(&reportv1.BeatAnswer{ServerId: server, Every: durationpb.New(every)})
	if err == nil {
		err = s.conn.Publish(topology.AnswerSubject(here), data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A server that was asked to beat once an hour, which counts as once a minute, beats at once, and then only when it has
// something else to say, or is asked again.
func TestBeatsThatSayTheSameComeAsRarelyAsWasAskedFor(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	heard := hearBeats(t, s.conn)
	bustest.Go(t, s.link.Run)
	polltest.Eventually(t, "it beats at the interval", func() bool { return heard.count() > 4 })
	if every := heard.last().GetEvery().AsDuration(); every != 10*time.Millisecond {
		t.Errorf("it says that it beats every %v", every)
	}
	s.ask(t, "0197b5a0-0000-7000-8000-000000000002", time.Hour) // of another server
	begin := heard.count()
	polltest.Eventually(t, "it goes on", func() bool { return heard.count() > begin+4 })
	s.ask(t, here.Server, time.Hour)
	polltest.Eventually(t, "it says that it beats every minute", func() bool {
		return heard.last().GetEvery().AsDuration() == time.Minute
	})
	quiet := heard.count()
	s.room.fail("SUSPENDED")
	polltest.Eventually(t, "what changed is said", func() bool { return heard.last().GetCode() == "SUSPENDED" })
	s.ask(t, here.Server, time.Minute)
	polltest.Eventually(t, "it beats when it is asked to", func() bool { return heard.count() > quiet+1 })
	s.ask(t, here.Server, 0)
	polltest.Eventually(t, "it beats at the interval again", func() bool { return heard.count() > quiet+9 })
}

// A server that beats once a minute beats at once when it is connected again.
func TestAServerThatBeatsRarelyBeatsWhenItIsConnectedAgain(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	heard := hearBeats(t, s.conn)
	bustest.Go(t, s.link.Run)
	polltest.Eventually(t, "it beats", func() bool { return heard.count() > 0 })
	s.ask(t, here.Server, time.Minute)
	polltest.Eventually(t, "it beats every minute", func() bool {
		return heard.last().GetEvery().AsDuration() == time.Minute
	})
	before := heard.count()
	for tries := 0; heard.count() == before; tries++ { // the listener may be connected after it
		if tries == 20 {
			t.Fatal("it does not beat after it lost the connection")
		}
		s.b.Restart(t, func(string) {})
		for until := time.Now().Add(2 * time.Second); heard.count() == before && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
	}
}
