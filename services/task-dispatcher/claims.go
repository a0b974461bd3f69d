package dispatcher

import "sync"

// claims are the queued tasks that a goroutine of this process is moving. A guard holds
// over one subject only, and an admission needs it for the limit; so inside one process
// a claim keeps a task from being admitted and taken back at once. Between two processes
// the ledger's order decides: what comes second does not fit and changes nothing.
//
// A claim is taken while the view stands still and given back once the view holds what
// was recorded, so who claims a task that the view shows as queued sees it as it is.
type claims struct {
	mu   sync.Mutex
	held map[string]bool
}

func newClaims() *claims { return &claims{held: map[string]bool{}} }

// take claims a task; false when another goroutine has.
func (c *claims) take(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[id] {
		return false
	}
	c.held[id] = true
	return true
}

// give gives claims back.
func (c *claims) give(ids ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.held, id)
	}
}
