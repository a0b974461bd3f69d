package engine

import (
	"sync/atomic"
	"testing"
	"time"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// slowLook is a supervisor whose look at what runs takes as long as a test wants.
type slowLook struct {
	supervise.Supervisor
	armed  atomic.Bool
	begun  chan struct{} // closed when the slow look has begun
	finish chan struct{}
}

func (s *slowLook) Slots() ([]supervise.Slot, error) {
	if s.armed.CompareAndSwap(true, false) {
		close(s.begun)
		<-s.finish
	}
	return s.Supervisor.Slots()
}

// A list that was begun before a change ended must not be said after the list of that end:
// who reads it last would believe that what was proven does not run.
func TestAnOlderListIsNotSaidAfterANewerOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := &slowLook{begun: make(chan struct{}), finish: make(chan struct{})}
	var upgrade atomic.Pointer[running]
	r := b.run(func(c *Config) {
		s.Supervisor, c.Supervisor = c.Supervisor, s
		c.CheckEvery = time.Hour // which would say it right again
		c.FailPoint = func(point string) {
			if r := upgrade.Load(); r != nil && point == "new started" {
				s.armed.Store(true)
				r.changed.Wake() // as when an agent ends
				<-s.begun
			}
		}
	})
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	upgrade.Store(r)
	task := b.want(b.image("cn-agent", "2.0.0", "ready"))
	r.offer()
	<-s.begun
	for end := time.Now().Add(time.Second); r.endedTask(task) == nil && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond) // it may end now, or wait for the look
	}
	close(s.finish)
	outcome(t, r.wait(task), good)
	for range 2 { // until what the loop was at is said
		if err := r.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all := r.reports()
	last := all[len(all)-1]
	for _, f := range last.GetAgents().GetAgents() {
		if f.GetImage().GetVersion() != "2.0.0" || f.GetHealth() != instancev1.Health_HEALTH_GOOD {
			t.Errorf("the last list says %v", f)
		}
	}
	if last.GetAgents() == nil && last.GetTask().GetOutcome().GetShown() == nil {
		t.Errorf("the last report is %v", last)
	}
}
