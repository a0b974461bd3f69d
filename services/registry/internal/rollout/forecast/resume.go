package forecast

import (
	"time"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// Point is a rollout on its way, from which runs go on.
type Point struct {
	Now     time.Time
	Rollout *rolloutv1.Rollout
	Targets []*rolloutv1.Target // parallel to the servers of the world
}

// resume goes on from a point: what is under way takes as long as changes take that took so long already.
func (s *simulation) resume() {
	p := s.From
	s.begin, s.now, s.Strategy = p.Now, p.Now, p.Rollout.Strategy
	s.book.Load(p.Rollout, p.Targets)
	for i, server := range s.Servers {
		s.index[server.ServerID] = i
		if server.Dead {
			s.absent[i] = true
			s.book.Apply(server.ServerID, rollout.Event{Kind: rollout.Away, At: p.Now})
		}
		s.scheduleFaults(i)
		if p.Targets[i].State == rolloutv1.TargetState_TARGET_STATE_REACHED {
			s.busy[i] = true
			s.at(s.rest(p.Now.Sub(p.Targets[i].TakenAt.AsTime())), i, rollout.Event{
				Kind: rollout.Ended, OK: s.random.Float64() >= s.Fails,
			})
		}
	}
	s.count()
}

// tries is how often a duration that is longer than what has passed is drawn.
const tries = 20

// rest returns how long a change goes on that has been under way for some time. One that took longer than any that was
// recorded takes half as long again.
func (s *simulation) rest(passed time.Duration) time.Duration {
	for range tries {
		if len(s.Durations) == 0 {
			break
		}
		if took := s.Durations[s.random.IntN(len(s.Durations))]; took > passed {
			return took - passed
		}
	}
	return max(time.Second, passed/2)
}
