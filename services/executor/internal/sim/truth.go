package sim

import (
	"slices"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Truth is what a server did and has.
type Truth struct {
	Fault     Fault
	Dead      bool
	Agents    map[string]string       // the id of the image of each agent
	Ended     map[string]taskv1.State // how tasks ended
	Forgotten bool                    // it does not remember all of them
	Waiting   int                     // reports that were not acknowledged
	Dropped   int                     // reports that were lost because the outbox was full
	Tried     []string                // the versions to which a change began
}

func (e *engine) truth() Truth {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := Truth{
		Fault: e.fault, Dead: e.memory.Dead, Agents: map[string]string{}, Ended: map[string]taskv1.State{},
		Forgotten: e.memory.Forgotten > 0, Waiting: len(e.memory.Outbox), Dropped: e.memory.Dropped,
		Tried: slices.Clone(e.memory.Tried),
	}
	for name, a := range e.memory.Agents {
		t.Agents[name] = a.ImageID
	}
	for _, was := range e.memory.Ended {
		t.Ended[was.TaskID] = was.State
	}
	return t
}

func (e *engine) dead() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.memory.Dead
}
