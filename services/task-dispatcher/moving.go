package dispatcher

import "sync"

// moving are the tasks that a goroutine of this process is moving on. The claim keeps
// other processes from queued tasks; this keeps the lanes of one process from taking the
// same one, such as one that is to be admitted and taken back at once.
//
// A task is taken while the view stands still and given back once the view holds what
// was recorded, so who takes a task that the view shows as queued sees it as it is.
type moving struct {
	mu    sync.Mutex
	tasks map[string]bool
}

func newMoving() *moving { return &moving{tasks: map[string]bool{}} }

// take takes a task; false when another goroutine has it.
func (m *moving) take(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tasks[id] {
		return false
	}
	m.tasks[id] = true
	return true
}

// give gives tasks back.
func (m *moving) give(ids ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.tasks, id)
	}
}
