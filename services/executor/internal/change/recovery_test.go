package change

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// server is a model of what a change touches: the journal's record, the agent's link and the
// inventory. An effect that a crash interrupts leaves the link between two versions.
type server struct {
	t         *rapid.T
	name      string
	saved     *Record // nil when no change is open
	link, inv string
	crashed   bool
	broken    bool // a rollback was given up
}

const previous, next, between = "old", "new", "between"

// crash decides whether the executor is killed here.
func (s *server) crash() bool {
	s.crashed = s.crashed || rapid.IntRange(0, 5).Draw(s.t, "killed") == 0
	return s.crashed
}

func (s *server) save(r *Record) {
	copied := *r
	s.saved = &copied
}

// set moves the link in two halves, as a step does that is more than one system call.
func (s *server) set(to string) {
	s.link = between
	if !s.crash() {
		s.link = to
	}
}

// do is the effect of a state's step.
func (s *server) do(r *Record, at State) error {
	fails := func() error {
		if rapid.IntRange(0, 3).Draw(s.t, "fails") == 0 {
			return errors.New("failed")
		}
		return nil
	}
	switch at {
	case Switching, MovingOut:
		if err := fails(); err != nil {
			if at == Switching {
				s.set(between)
			}
			return err
		}
		if s.set(next); s.crashed || at == Switching {
			return nil
		}
		r.Committed = true
		s.save(r)
		s.inv = next
	case Trial:
		r.TrialPassed = rapid.Bool().Draw(s.t, "passes")
		if !r.TrialPassed {
			return errors.New("failed")
		}
		s.save(r)
	case Committing:
		if r.To.IsSelf() {
			if s.set(next); s.crashed {
				return nil
			}
		}
		if err := fails(); err != nil {
			return err
		}
		r.Committed = true
		s.save(r)
		s.inv = next
	case RollingBack:
		if s.set(previous); !s.crashed {
			r.Committed, s.inv = false, previous
		}
	case Committed, Restored, Broken:
	case Starting:
		if rapid.IntRange(0, 3).Draw(s.t, "does not start") == 0 {
			r.Committed = false
			return errors.New("the program does not start")
		}
	case Replacing:
		r.ReplacesImage = rapid.Bool().Draw(s.t, "is damaged")
		s.save(r)
	default:
		return fails()
	}
	return nil
}

// drive does a change from a state until it ends or the executor is killed.
func (s *server) drive(r *Record, at State) State {
	life := r.Life()
	for !life.End(at) {
		if r.Step = Steps[at]; s.crash() {
			return at
		}
		s.save(r)
		if s.crash() {
			return at
		}
		err := s.do(r, at)
		if s.crash() {
			return at
		}
		if err != nil && r.Failure == nil {
			r.Failure = &Failure{Step: r.Step}
		}
		at = r.Next(at, err)
	}
	s.saved = nil
	return at
}

// resume does an interrupted change as a start of the executor does.
func (s *server) resume() State {
	r := *s.saved
	r.Interrupt()
	s.save(&r)
	at, next, exhausted := r.Recover()
	switch {
	case exhausted && r.Life().End(next):
	case exhausted && r.Failure != nil:
		r.RollbackError, s.broken = "it took the machine down", true
	case exhausted, at == Trial && r.Failure == nil:
		r.Failure = &Failure{Step: max(r.Step, taskv1.Step_STEP_CHECK)}
	}
	return s.drive(&r, next)
}

func TestFromEveryCrashAChangeEndsWithTheNewOrTheOldVersion(t *testing.T) {
	for name := range tables {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := &server{t: t, name: name, link: previous, inv: previous}
				end := s.drive(newRecord(name), Checking)
				for n := 0; s.crashed && s.saved != nil; n++ {
					if n > 2*(MaxCrashes+MaxInterruptions) {
						if s.saved.state() == Starting {
							t.Skip("the starts of a program are counted elsewhere")
						}
						t.Fatalf("it is resumed without end: %+v", s.saved)
					}
					s.crashed = false
					end = s.resume()
				}
				if s.crashed {
					return // before the journal knew of the change
				}
				if end == Failed && s.broken {
					return // its rollback took the machine down, too
				}
				want := map[State]string{Good: next, RolledBack: previous, Dropped: previous}[end]
				if s.name == "removal" && end == Failed {
					want = next // gone, but for files
				}
				if s.link != want || s.inv != want {
					t.Fatalf("it ended as %s with the link to %s and %s in the inventory", end, s.link, s.inv)
				}
			})
		})
	}
}
