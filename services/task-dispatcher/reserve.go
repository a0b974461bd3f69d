package dispatcher

import "sync"

// reservations are the tasks that a goroutine of this process is about to assign or end.
// The claim keeps other processes from queued tasks; a reservation keeps two lanes of one process
// from the same task, such as one that is admitted and cancelled at once.
//
// A task is reserved while the view stands still, and released once the view holds what was
// recorded. A goroutine that reserves a task that the view shows as queued therefore sees its
// present state.
type reservations struct {
	mu    sync.Mutex
	tasks map[string]bool
}

func newReservations() *reservations { return &reservations{tasks: map[string]bool{}} }

// reserve reserves a task; false when another goroutine has it.
func (r *reservations) reserve(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tasks[id] {
		return false
	}
	r.tasks[id] = true
	return true
}

// release ends the reservations of tasks.
func (r *reservations) release(ids ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		delete(r.tasks, id)
	}
}
