package forecast

import (
	"container/heap"
	"time"

	"github.com/garrison-fleet/garrison/pkg/keep"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// schedule puts something on the agenda.
func (s *simulation) schedule(in time.Duration, h happening) {
	s.number++
	h.at, h.number = s.now.Add(in), s.number
	heap.Push(&s.agenda, h)
}

// at puts what happens to a server on the agenda.
func (s *simulation) at(in time.Duration, server int, e rollout.Event) {
	s.schedule(in, happening{server: server, event: e})
}

// after returns a random time with a mean.
func (s *simulation) after(mean time.Duration) time.Duration {
	return time.Duration(s.random.ExpFloat64() * float64(mean))
}

// scheduleFaults puts on the agenda what happens to a server by itself within the first days.
func (s *simulation) scheduleFaults(i int) {
	const day = 24 * time.Hour
	if s.BreaksPerDay > 0 {
		if in := s.after(time.Duration(float64(day) / s.BreaksPerDay)); in < 2*day {
			s.at(in, i, rollout.Event{Kind: rollout.Unhealthy})
		}
	}
	if s.OfflinePerDay > 0 && !s.Servers[i].Dead {
		if in := s.after(time.Duration(float64(day) / s.OfflinePerDay)); in < 2*day {
			s.at(in, i, rollout.Event{Kind: rollout.Away})
		}
	}
}

// duration returns how long a change takes.
func (s *simulation) duration() time.Duration {
	if len(s.Durations) == 0 {
		return time.Second
	}
	return s.Durations[s.random.IntN(len(s.Durations))]
}

// release begins the change of a server.
func (s *simulation) release(i int) {
	s.touched++
	s.change(i, func() { s.busy[i] = true })
	s.atOnce = max(s.atOnce, len(s.busy))
	s.step(i, 0)
}

// step begins a step of a server's changes, from 0: all at once, as far as there are slots.
func (s *simulation) step(i, step int) {
	server, took, ok := s.Servers[i], time.Duration(0), true
	for range server.changes(step) {
		one := s.duration()
		if server.Slow {
			one *= 10
		}
		s.giveWay()
		took = max(took, one+s.slots.wait(s.Slots, s.now, one))
		ok = s.random.Float64() >= s.Fails && ok
	}
	if ok && step+1 < len(server.Steps) {
		s.schedule(took, happening{server: i, step: step + 1})
		return
	}
	s.end(i, took, ok)
}

// changes returns how many changes a step has.
func (s Server) changes(step int) int {
	if step >= len(s.Steps) {
		return 1
	}
	return s.Steps[step]
}

// end puts the end of a server's changes on the agenda, and what the fault of the new version does.
func (s *simulation) end(i int, took time.Duration, ok bool) {
	if f := s.Fault; (f.Field == "" || s.Servers[i].Fields[f.Field] == f.Value) && s.random.Float64() < f.Share {
		if s.random.Float64() < f.Late {
			s.at(took+s.after(lateWithin), i, rollout.Event{Kind: rollout.Unhealthy})
		} else {
			ok = false
		}
	}
	s.at(took, i, rollout.Event{Kind: rollout.Ended, OK: ok})
}

// happen lets something happen. The end of a change on a server that is offline is reported when it is back.
func (s *simulation) happen(h happening) {
	if h.frees {
		s.change(h.server, func() { delete(s.other, h.server) })
		return
	}
	if h.step > 0 {
		s.goOnWith(h)
		return
	}
	h.event.At = s.now
	switch h.event.Kind {
	case rollout.Ended:
		if s.absent[h.server] {
			s.at(time.Minute, h.server, h.event)
			return
		}
		s.change(h.server, func() { delete(s.busy, h.server) })
	case rollout.Away:
		s.change(h.server, func() { s.absent[h.server] = true })
		s.at(s.after(s.OfflineFor), h.server, rollout.Event{Kind: rollout.Back})
	case rollout.Back:
		s.change(h.server, func() { delete(s.absent, h.server) })
	case rollout.Unhealthy:
		s.change(h.server, func() { s.broken[h.server] = true })
	}
	s.book.Apply(s.Servers[h.server].ServerID, h.event)
}

// goOnWith begins a later step of a server's changes, once the server is online.
func (s *simulation) goOnWith(h happening) {
	if s.absent[h.server] {
		s.schedule(time.Minute, h)
		return
	}
	s.step(h.server, h.step)
}

// working reports whether a server is online, healthy and not under way, by the rollout or by others.
func (s *simulation) working(i int) bool {
	return !s.absent[i] && !s.broken[i] && !s.busy[i] && !s.other[i]
}

// count counts the working servers by the fields of the keep budgets.
func (s *simulation) count() {
	s.works = map[[2]string][2]int{}
	for i, server := range s.Servers {
		s.recount(i)
		for _, k := range s.Strategy.GetKeep() {
			key := [2]string{k.Field, server.Fields[k.Field]}
			n := s.works[key]
			if n[1]++; s.working(i) {
				n[0]++
			}
			s.works[key] = n
		}
	}
}

// change changes a server, and the counts of working servers with it.
func (s *simulation) change(i int, edit func()) {
	before := s.working(i)
	edit()
	after := s.working(i)
	if before == after || s.works == nil {
		return
	}
	s.recount(i)
	for _, k := range s.Strategy.GetKeep() {
		key := [2]string{k.Field, s.Servers[i].Fields[k.Field]}
		n := s.works[key]
		if n[0]--; after {
			n[0] += 2
		}
		s.works[key] = n
	}
}

// A rollout shares the slots of the task-dispatcher, and its servers, with others. What they have under way when a run
// begins comes first; what they have yet to begin takes slots in turn with the rollout, in the ratio of what is left.

// crowd begins what others have under way.
func (s *simulation) crowd() {
	for range s.Busy {
		took := s.duration()
		s.slots.wait(s.Slots, s.now, took)
	}
	for i, server := range s.Servers {
		if server.Busy {
			s.other[i] = true
			s.schedule(s.duration(), happening{server: i, frees: true})
		}
	}
}

// giveWay lets others take slots before the next change of the rollout does.
func (s *simulation) giveWay() {
	mine := max(1, len(s.Servers)-s.touched+1)
	for s.beside > 0 && s.Slots > 0 && s.random.Float64()*float64(s.beside+mine) < float64(s.beside) {
		s.slots.wait(s.Slots, s.now, s.duration())
		s.beside--
	}
}

// Budgets are the standing keep budgets of the environments of a world.
type Budgets struct {
	Of      func(server string) []rollout.Standing // of a server, without counts; nil means that there are none
	Outside map[keep.Group]keep.Count              // the servers that the rollout leaves as they are
}

// standing returns the budgets of a server with the counts of the moment.
func (s *simulation) standing(server string) []rollout.Standing {
	if s.Budgets.Of == nil {
		return nil
	}
	of := s.Budgets.Of(server)
	for n := range of {
		outside, inside := s.Budgets.Outside[of[n].Group], s.kept.Of(of[n].Group)
		of[n].Count = keep.Count{All: outside.All + inside.All, Working: outside.Working + inside.Working}
	}
	return of
}

// recount counts a server for the standing budgets as it is now.
func (s *simulation) recount(i int) {
	if s.Budgets.Of == nil {
		return
	}
	var groups []keep.Group
	for _, b := range s.Budgets.Of(s.Servers[i].ServerID) {
		groups = append(groups, b.Group)
	}
	s.kept.Set(s.Servers[i].ServerID, groups, s.working(i))
}
