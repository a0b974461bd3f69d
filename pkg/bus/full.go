package bus

import (
	"errors"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// fullFor is how long a bus without room is asked again: it may have discarded something by then.
const fullFor = 2 * time.Second

// noRoom are the endings of descriptions by which nats-server says that it has no room.
var noRoom = []string{
	"no space left on device", "disk quota exceeded", "maximum bytes exceeded",
	"insufficient storage resources available",
}

// full returns the refusal of a bus that has had no room since a time; nil for any other error, and before fullFor.
func full(err error, since time.Time) error {
	e, ok := errors.AsType[*apiError](err)
	if !ok || time.Since(since) < fullFor {
		return nil
	}
	for _, text := range noRoom {
		if strings.HasSuffix(e.description, text) {
			return fault.Refusef(fault.Unavailable, code.NoSpace, "the bus has no room, and stored nothing: %s", text).
				From("bus").Try("make room on the disk of the bus; garrison bus")
		}
	}
	return nil
}
