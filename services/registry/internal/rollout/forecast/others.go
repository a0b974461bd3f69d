package forecast

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
