package images

import (
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// most and mostOfOne bound the transfers at once, of all users and of one. Each holds about three copies of a chunk,
// so that all of them take less than 100 MiB.
const most, mostOfOne = 64, 8

// turns counts the transfers that are under way. It is safe for concurrent use.
type turns struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

// take begins a transfer of a user, or is Unavailable.
func (t *turns) take(user string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.of[user] >= mostOfOne:
		return busy("%d transfers of %s are under way", t.of[user], user)
	case t.all >= most:
		return busy("%d transfers are under way", t.all)
	}
	t.all++
	t.of[user]++
	return nil
}

// leave ends a transfer of a user.
func (t *turns) leave(user string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.of[user]--; t.of[user] == 0 {
		delete(t.of, user)
	}
}

func busy(format string, args ...any) error {
	return fault.Refusef(fault.Unavailable, code.Busy, format, args...).After(time.Second)
}
