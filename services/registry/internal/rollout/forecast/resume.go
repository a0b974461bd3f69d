package forecast

import (
	"slices"
	"time"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// Point is a rollout on its way, from which runs go on.
type Point struct {
	Now     time.Time
	Rollout *rolloutv1.Rollout
	Targets []*rolloutv1.Target // parallel to the servers of the world
	Queued  []bool              // parallel to them: released, but its change has not begun; nil means none
}

// resume goes on from a point: what is under way takes as long as changes take that took so long already, and what is
// queued begins after it.
func (s *simulation) resume() {
	p := s.From
	s.Strategy = p.Rollout.Strategy
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
		}
	}
	for _, queued := range []bool{false, true} {
		for i := range s.Servers {
			if s.busy[i] && p.queued(i) == queued {
				s.goOn(i, queued)
			}
		}
	}
	s.count()
}

func (p *Point) queued(i int) bool { return i < len(p.Queued) && p.Queued[i] }

// goOn puts the end of a change on the agenda. Where others are queued it waited for a time that is not known, and is
// somewhere in its course.
func (s *simulation) goOn(i int, queued bool) {
	took := s.duration()
	switch {
	case queued:
	case slices.Contains(s.From.Queued, true):
		took = time.Duration(float64(took) * s.random.Float64())
	default:
		took = s.rest(s.From.Now.Sub(s.From.Targets[i].TakenAt.AsTime()))
	}
	took += s.slots.wait(s.Slots, s.now, took)
	ok := s.random.Float64() >= s.Fails
	if next := max(1, int(s.From.Targets[i].Step)); ok && next < len(s.Servers[i].Steps) {
		s.schedule(took, happening{server: i, step: next})
		return
	}
	s.at(took, i, rollout.Event{Kind: rollout.Ended, OK: ok})
}

// tries is how often a duration that is longer than what has passed is drawn.
const tries = 20

// rest returns how long a change goes on that has been under way for some time. One that took longer than any that was
// recorded takes half as long again.
func (s *simulation) rest(passed time.Duration) time.Duration {
	for range tries {
		if took := s.duration(); took > passed {
			return took - passed
		}
	}
	return max(time.Second, passed/2)
}
