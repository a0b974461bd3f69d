package engine

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// slowStart is a supervisor that takes its time for each start, as systemd does when its bus
// does not answer.
type slowStart struct {
	supervise.Supervisor
	started chan struct{} // receives each start
	goOn    chan struct{}
	starts  atomic.Int32
}

func (s *slowStart) Unit(spec supervise.Spec, log zerolog.Logger, changed func()) supervise.Unit {
	return slowUnit{s.Supervisor.Unit(spec, log, changed), s}
}

type slowUnit struct {
	supervise.Unit
	s *slowStart
}

func (u slowUnit) Start() (bool, error) {
	u.s.starts.Add(1)
	u.s.started <- struct{}{}
	<-u.s.goOn
	return u.Unit.Start()
}

func TestAnExecutorThatIsToldToStopStartsNoFurtherAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.run()
	for _, agent := range []string{"a-agent", "b-agent", "c-agent"} {
		outcome(t, first.do(b.want(b.image(agent, "1.0.0", "ready"))), good)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	s := &slowStart{started: make(chan struct{}, 9), goOn: make(chan struct{})}
	r := b.run(func(c *Config) { s.Supervisor, c.Supervisor = c.Supervisor, s })
	<-s.started
	r.cancel() // the stop comes before the start goes on
	close(s.goOn)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if n := s.starts.Load(); n != 1 {
		t.Errorf("%d agents were started", n)
	}
}

// An image may give its agent an hour to end; nothing else on the server waits for that.
func TestAnAgentThatTakesLongToEndHoldsNothingElseUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var ends atomic.Bool // the removal is under way
	r := b.run(func(c *Config) {
		c.CheckEvery = 50 * time.Millisecond
		c.FailPoint = func(p string) {
			if p == "begin switch" {
				ends.Store(true)
			}
		}
	})
	slow := b.image("slow-agent", "1.0.0", "stubborn", func(m *imagev1.Manifest) { m.Run.StopTimeoutMs = 3600_000 })
	outcome(t, r.do(b.want(slow)), good)
	stubborn := int(r.good("slow-agent", "1.0.0").GetPid())
	ends.Store(false)
	removal := b.unwant("slow-agent", instanceOf("slow-agent"))
	r.offer()
	r.eventually("it gets the signal to end", ends.Load)
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	if _, err := r.Status(); err != nil {
		t.Error(err)
	}
	if err := r.Turn(t.Context()); err != nil {
		t.Error(err)
	}
	if r.endedTask(removal) != nil {
		t.Error("the other change waited for it, or it ended at once")
	}
	if err := syscall.Kill(stubborn, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	outcome(t, r.wait(removal), good)
}
